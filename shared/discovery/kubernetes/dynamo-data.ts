import { type EventScope, encodeSegment } from '../../planes/index.ts';
import { asRecord, asU64, type UnknownRecord } from '../../records/index.ts';
import { scopeOf } from '../dynamo/events.ts';
import { fromDynamo } from '../dynamo/read-record.ts';
import { toDynamo } from '../dynamo/write-record.ts';
import { type Bucket, encodePrefix, eventChannelPrefix, type RecordAddress } from '../keys.ts';
import { refusalText } from '../record-text.ts';
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

/** Reason to refuse a worker whose id is no exact number. Dynamo's own ids in Kubernetes have 53 bits. */
const LONG_ID = `the instance id of the worker is larger than ${Number.MAX_SAFE_INTEGER}, so it cannot be read exactly in Kubernetes; set DYN_DISCOVERY_LOGICAL_INSTANCE_ID of the worker to a smaller number`;

/**
 * Returns the records that a worker of Dynamo's has in its object. Their keys there depend on the release, so they are
 * made anew from the records.
 */
export function dynamoRecords(data: UnknownRecord): readonly PlacedText[] {
  const placed: PlacedText[] = [];
  for (const bucket of BUCKETS) {
    for (const [name, value] of Object.entries(asRecord(data[PARTS[bucket]]) ?? {})) {
      placed.push({ bucket, ...keyedText(name, asRecord(value) ?? {}) });
    }
  }
  return placed;
}

/** Returns the key and the text of the record that an object has under `name`. */
function keyedText(name: string, record: UnknownRecord): Omit<PlacedText, 'bucket'> {
  const number = record.instance_id ?? record.publisher_id;
  const id = asU64(number)?.toString(16);
  if (id === undefined && Number(number) > Number.MAX_SAFE_INTEGER) {
    const last = name.slice(name.lastIndexOf('/') + 1); // in most releases, the id as it was written
    return { key: keyOf(record, encodeSegment(last)), text: refusalText(LONG_ID) };
  }
  // No record has the name as its key, so the reader reports it.
  const key = id === undefined ? encodeSegment(name) : keyOf(record, id);
  return { key, text: fromDynamo(JSON.stringify(record), key) };
}

function keyOf(record: UnknownRecord, id: string): string {
  const { namespace, component, endpoint, topic, model_suffix: suffix } = record;
  const scope = asRecord(record.scope);
  if (scope !== undefined) {
    return `${encodePrefix(eventChannelPrefix(scopeOf(scope) as unknown as EventScope, String(topic)))}/${id}`;
  }
  const path = [namespace, component, endpoint ?? topic, id, ...(typeof suffix === 'string' ? [suffix] : [])];
  return path.map((segment) => encodeSegment(String(segment))).join('/');
}
