import type { RecordAddress } from '../keys.ts';
import { TABLE_SCHEMA } from '../table/create-table.ts';
import { partitionOf } from '../table/partition.ts';
import type { ItemKey } from '../table/table.ts';
import type { Bucket } from '../types.ts';

/**
 * The discovery table. One table holds four kinds of item:
 *
 *   pk                        sk                               attributes
 *   {bucket}#{ns}             {component}/{endpoint}/{id}...   record (JSON), leaseId, epoch, rev [, leaseNs]
 *   v1/leases#{ns}#{0..15}    {leaseId}                        expiresAtMs, ttlMs, epoch, host, ttl
 *   v1/namespaces             {ns}                             ttl
 *
 * A record lives while its lease does and carries the same epoch. `leaseNs` is there only when the lease is kept under
 * another namespace than the record. The namespaces are listed so that a reader of all of them needs no scan. `ttl` (Unix
 * seconds) only clears garbage; nothing reads liveness from it.
 */
export const DISCOVERY_TABLE_SCHEMA = TABLE_SCHEMA;

/** Part of the table that answers a query: one namespace or all of them. */
export interface TableScope {
  readonly bucket: Bucket;
  /** Encoded; undefined = every namespace. */
  readonly namespace: string | undefined;
  /** Start of the sort key; undefined = all. */
  readonly sortPrefix: string | undefined;
}

export const NAMESPACES_PK = 'v1/namespaces';
const WHOLE_SORT_KEY_SEGMENTS = 3; // component/endpoint/id and topic/{topic}/{id}

/** Where a record is kept. */
export function recordItemKey(address: RecordAddress): ItemKey {
  const { namespace, rest } = splitKey(address.bucket, address.key);
  return { pk: recordPartition(address.bucket, namespace), sk: rest };
}

export function recordPartition(bucket: Bucket, encodedNamespace: string): string {
  return `${bucket}#${encodedNamespace}`;
}

/** Reverses `recordItemKey`. */
export function keyOfItem(bucket: Bucket, encodedNamespace: string, sortKey: string): string {
  return `${bucket === 'v1/event_channels' ? 'namespace/' : ''}${encodedNamespace}/${sortKey}`;
}

export function leaseItemKey(encodedNamespace: string, leaseId: string): ItemKey {
  return { pk: `v1/leases#${encodedNamespace}#${partitionOf(leaseId)}`, sk: leaseId };
}

/** What to read for an encoded query prefix, or undefined when nothing can lie under it. */
export function scopeOf(bucket: Bucket, encodedPrefix: string): TableScope | undefined {
  const segments = encodedPrefix === '' ? [] : encodedPrefix.split('/');
  if (bucket === 'v1/event_channels' && segments.length > 0 && segments.shift() !== 'namespace') return undefined;
  const [namespace, ...rest] = segments;
  if (rest.length === 0) return { bucket, namespace, sortPrefix: undefined };
  // A shorter prefix ends in `/` and so matches whole segments; one that may be a whole key cannot, the reader filters it.
  const end = rest.length < WHOLE_SORT_KEY_SEGMENTS ? '/' : '';
  return { bucket, namespace, sortPrefix: rest.join('/') + end };
}

function splitKey(bucket: Bucket, key: string): { readonly namespace: string; readonly rest: string } {
  const segments = key.split('/');
  if (bucket === 'v1/event_channels') segments.shift(); // always `namespace`
  const [namespace = '', ...rest] = segments;
  return { namespace, rest: rest.join('/') };
}
