import { assertNever } from '../errors/index.ts';
import { type EventScope, encodeSegment } from '../planes/index.ts';
import type { DiscoveryRecord, EndpointRecord, ModelRecord } from './records.ts';

/** All buckets of the key space. */
export const BUCKETS = ['v1/instances', 'v1/mdc', 'v1/event_channels', 'v1/event_sources'] as const;

export type Bucket = (typeof BUCKETS)[number];

/** Place of a record. `key` consists of encoded segments joined by `/`. */
export interface RecordAddress {
  readonly bucket: Bucket;
  readonly key: string;
}

/** Returns bucket and key of `record`. */
export function addressOf(record: DiscoveryRecord): RecordAddress {
  switch (record.type) {
    case 'Endpoint':
      return address('v1/instances', endpointPath(record));
    case 'Model': {
      const suffix = record.model_suffix === undefined ? [] : [record.model_suffix];
      return address('v1/mdc', [...endpointPath(record), ...suffix]);
    }
    case 'EventChannel':
      return address('v1/event_channels', [...scopePath(record.scope), 'topic', record.topic, record.instance_id]);
    case 'EventSource':
      return address('v1/event_sources', [...scopePath(record.scope), 'topic', record.topic, record.instance_id]);
    default:
      return assertNever(record);
  }
}

/**
 * Returns the query prefix of the event channels, or event sources, of exactly `scope`, optionally of one topic. Scopes
 * do not contain each other: the prefix of a namespace does not find the channels of its components.
 */
export function eventChannelPrefix(scope: EventScope, topic?: string): string {
  return [...scopePath(scope), 'topic', ...(topic === undefined ? [] : [topic])].join('/');
}

/** Encodes a query prefix (plain segments joined by `/`). */
export function encodePrefix(prefix: string): string {
  return prefix.split('/').filter(Boolean).map(encodeSegment).join('/');
}

/** Whether `key` lies under `encodedPrefix`, by whole segments: `ns/comp` contains `ns/comp/ep`, never `ns/comp2`. */
export function isUnder(key: string, encodedPrefix: string): boolean {
  return encodedPrefix === '' || key === encodedPrefix || key.startsWith(`${encodedPrefix}/`);
}

function address(bucket: Bucket, path: readonly string[]): RecordAddress {
  return { bucket, key: path.map(encodeSegment).join('/') };
}

function endpointPath({ namespace, component, endpoint, instance_id }: EndpointRecord | ModelRecord): string[] {
  return [namespace, component, endpoint, instance_id];
}

function scopePath(scope: EventScope): string[] {
  const path = ['namespace', scope.namespace];
  if (scope.kind === 'namespace') return path;
  path.push('component', scope.component);
  return scope.kind === 'component' ? path : [...path, 'endpoint', scope.endpoint];
}
