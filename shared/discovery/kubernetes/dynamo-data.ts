import { type EventScope, encodeSegment } from '../../planes/index.ts';
import { asRecord, asU64, type UnknownRecord } from '../../records/index.ts';
import { scopeOf } from '../dynamo/events.ts';
import { fromDynamo } from '../dynamo/read-record.ts';
import { toDynamo } from '../dynamo/write-record.ts';
import { type Bucket, encodePrefix, eventChannelPrefix, type RecordAddress } from '../keys.ts';
import type { DiscoveryRecord } from '../records.ts';

/** Parts of the data of Dynamo's workers, by the bucket that the same records have in its other stores. */
const PARTS = {
  'v1/instances': 'endpoints',
  'v1/mdc': 'model_cards',
  'v1/event_channels': 'event_channels',
  'v1/event_sources': 'event_sources',
} as const satisfies Readonly<Record<Bucket, string>>;

const BUCKETS = Object.keys(PARTS) as readonly Bucket[]; // its own keys

/** A record in the data of an object: its place, and its text as Stator writes it. */
export interface PlacedText extends RecordAddress {
  readonly text: string;
}

/** A record as the object of a process has it: a text of Stator's, or a value in a part of Dynamo's. */
export type StoredRecord = { readonly text: string } | { readonly value: unknown };

/** Returns the stored form of a record. One for Dynamo's processes goes into the parts that those read. */
export function storedOf(record: DiscoveryRecord, toText: (record: DiscoveryRecord) => string): StoredRecord {
  // Ids have 53 bits in Kubernetes, and so are exact as numbers.
  return record.wire === 'dynamo' ? { value: JSON.parse(toDynamo(record)) } : { text: toText(record) };
}

/** Returns the data of an object: Dynamo's parts, and that of Stator. */
export function dataWith(process: string, stored: ReadonlyMap<string, StoredRecord>): object {
  const parts: Record<string, Record<string, unknown>> = {};
  for (const part of Object.values(PARTS)) parts[part] = {};
  const records: Record<string, string> = {};
  for (const [address, record] of stored) {
    const [bucket = '', key = ''] = address.split(' ', 2);
    if ('text' in record) records[address] = record.text;
    else Object.assign(parts[PARTS[bucket as Bucket]] ?? {}, { [key]: record.value }); // `addressOf` made it
  }
  return { ...parts, stator: { process, records } };
}

/**
 * Returns the records that a worker of Dynamo's has in its object. Their keys there depend on the release, so they are
 * made anew from the records.
 */
export function dynamoRecords(data: UnknownRecord): readonly PlacedText[] {
  const placed: PlacedText[] = [];
  for (const bucket of BUCKETS) {
    for (const [name, value] of Object.entries(asRecord(data[PARTS[bucket]]) ?? {})) {
      const record = asRecord(value) ?? {};
      const key = keyOf(record) ?? encodeSegment(name); // no record has such a key, so the reader reports it
      placed.push({ bucket, key, text: fromDynamo(JSON.stringify(record), key) });
    }
  }
  return placed;
}

function keyOf(record: UnknownRecord): string | undefined {
  const { namespace, component, endpoint, instance_id, publisher_id, topic, model_suffix: suffix } = record;
  const id = asU64(instance_id ?? publisher_id)?.toString(16);
  if (id === undefined) return undefined;
  const scope = asRecord(record.scope);
  if (scope !== undefined) {
    return `${encodePrefix(eventChannelPrefix(scopeOf(scope) as unknown as EventScope, String(topic)))}/${id}`;
  }
  const path = [namespace, component, endpoint ?? topic, id, ...(typeof suffix === 'string' ? [suffix] : [])];
  return path.map((segment) => encodeSegment(String(segment))).join('/');
}
