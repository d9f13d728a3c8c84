import { encodeSegment } from '../../planes/index.ts';
import { asRecord, type UnknownRecord } from '../../records/index.ts';
import { fromDynamo } from '../etcd/dynamo-records.ts';
import type { Bucket } from '../keys.ts';

/** Parts of the data of Dynamo's workers, by the bucket that the same records have in its other stores. */
const PARTS: readonly (readonly [part: string, bucket: Bucket])[] = [
  ['endpoints', 'v1/instances'],
  ['model_cards', 'v1/mdc'],
];

/** A record in the data of an object: its place, and its text as Stator writes it. */
export interface PlacedText {
  readonly bucket: Bucket;
  readonly key: string;
  readonly text: string;
}

/**
 * Returns the records that a worker of Dynamo's has in its object. Their keys there depend on the release, so they are
 * made anew from the records. Ids have 53 bits in Kubernetes, and so are exact as numbers.
 */
export function dynamoRecords(data: UnknownRecord): readonly PlacedText[] {
  const placed: PlacedText[] = [];
  for (const [part, bucket] of PARTS) {
    for (const value of Object.values(asRecord(data[part]) ?? {})) {
      const record = asRecord(value);
      const key = record === undefined ? undefined : keyOf(record);
      if (key !== undefined) placed.push({ bucket, key, text: fromDynamo(JSON.stringify(record), key) });
    }
  }
  return placed;
}

function keyOf({ namespace, component, endpoint, instance_id: id, model_suffix: suffix }: UnknownRecord) {
  const names = [namespace, component, endpoint];
  if (!names.every(isText) || typeof id !== 'number' || !Number.isSafeInteger(id) || id < 0) return undefined;
  const path = [...names, id.toString(16), ...(isText(suffix) ? [suffix] : [])];
  return path.map(encodeSegment).join('/');
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
