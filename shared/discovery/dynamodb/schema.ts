import { fnv1a } from '../../records/index.ts';
import type { RecordAddress } from '../keys.ts';
import { DiscoveryError } from '../options.ts';
import type { ItemKey } from '../table/table.ts';
import type { TableOptions } from '../table/table-client.ts';
import type { TablePlace } from '../table/table-errors.ts';

/*
 * The discovery table: one fleet, of all its namespaces.
 *
 *     pk                     sk                        attributes                                    written by
 *     v1/leases#{0..15}      {leaseId}                 epoch, rev, load, expiresAtMs, ttlMs, ttl     its process
 *                                                      drain                                         a planner
 *     v1/records#{leaseId}   {bucket}/{key}            record, epoch, ttl                            its process
 *     v1/cards               {checksum}                card, ttl                                     its writers
 *     v1/catalogue           {model}                   card, namespace, component, endpoint          the first worker
 *     v1/view                head                      fence, holder, body, writtenAtMs, takenAtMs   the gatherer
 *     v1/view#records{0..}   cell                      fence, version, cells, body                   the gatherer
 *     v1/view#loads{0..}     cell                      fence, version, cells, body                   the gatherer
 *     v1/view#catalogue      cell                      fence, version, cells, body                   the gatherer
 *     v1/view#index          cell                      fence, version, cells, body                   the gatherer
 *
 * A record counts while its lease lives and has the same epoch. `load`, `record` and `body` are packed bytes, `card` is
 * JSON. `ttl` (Unix seconds) only clears garbage; nothing reads liveness from it.
 */

/** Number of partitions for the items of one kind, so that no key is hot with 10,000 writers. */
const PARTITIONS = 16;

/** Returns the number of the partition of `name` (ASCII), 0..15; `step` = that many further on. */
function partitionOf(name: string, step = 0): number {
  return (fnv1a(name) + step) % PARTITIONS;
}

export const CARDS_PK = 'v1/cards';
export const CATALOGUE_PK = 'v1/catalogue';
export const HEAD_KEY: ItemKey = { pk: 'v1/view', sk: 'head' };
export const CATALOGUE_CELL_KEY: ItemKey = { pk: 'v1/view#catalogue', sk: 'cell' };

export const INDEX_CELL_KEY: ItemKey = { pk: 'v1/view#index', sk: 'cell' };

/** Returns every partition that holds leases. */
export const LEASE_PARTITIONS: readonly string[] = Array.from({ length: PARTITIONS }, (_, at) => `v1/leases#${at}`);

export function leaseItemKey(leaseId: string): ItemKey {
  return { pk: `v1/leases#${partitionOf(leaseId)}`, sk: leaseId };
}

export function recordsPartition(leaseId: string): string {
  return `v1/records#${leaseId}`;
}

export function recordItemKey(leaseId: string, { bucket, key }: RecordAddress): ItemKey {
  return { pk: recordsPartition(leaseId), sk: `${bucket}/${key}` };
}

export type CellKind = 'records' | 'loads';

export function cellItemKey(kind: CellKind, cell: number): ItemKey {
  return { pk: `v1/view#${kind}${cell}`, sk: 'cell' };
}

/** Name of the discovery table in its messages. */
export function discoveryTablePlace({ tableName, endpoint, region }: TableOptions): TablePlace {
  return {
    tableName,
    endpoint,
    region,
    kind: 'discovery table',
    setting: 'STATOR_DISCOVERY_TABLE',
    alternative: ', or choose --discovery-backend file',
    toError: (code, message, cause) => new DiscoveryError(code, message, cause),
  };
}
