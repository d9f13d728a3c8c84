import { type Item, type ItemKey, PARTITIONS, partitionOf } from '../../discovery/table/index.ts';
import { encodeSegment } from '../../planes/names/index.ts';
import type { RankWeight } from '../scheduler/types.ts';
import type {
  FleetItemKey,
  FleetItemRow,
  LeaseRow,
  LoadRow,
  PoolAddress,
  RankId,
  SnapshotPlace,
  SnapshotPointer,
  StateName,
} from './types.ts';

/*
 * The router-state table.
 *
 *   pk                      sk                                   attributes, by writer
 *   v1/load#{ns}#{0..15}    {component}/{endpoint}/{id}/{rank}   deciders: resRequests resBlocks resPrefill, markBy markAt 0..7
 *                                                                worker: active* acked* kvUsedBlocks number reportedAtMs ttl
 *   v1/fleet#{ns}#{0..15}   {component}/{endpoint}/{cell}/{copy} lease holder: body writtenAtMs fence ttl
 *   v1/fleet-reads#{ns}     {component}/{endpoint}               readers: reads ttl
 *   v1/leases#{ns}          {name}                               holders: holder fence expiresAtMs ttlMs
 *   v1/snapshots#{ns}       {name}                               lease holder: createdAt sequence object fence version prev*
 *
 * `ttl` (Unix seconds) only clears garbage; nothing reads liveness from it.
 */

export function loadItemKey(pool: PoolAddress, { workerId, dpRank }: RankId): ItemKey {
  return {
    pk: `v1/load#${encodeSegment(pool.namespace)}#${partitionOf(workerId)}`,
    sk: `${loadSortPrefix(pool)}${workerId}/${dpRank}`,
  };
}

/** Every partition that holds loads of a namespace. */
export function loadPartitions(pool: PoolAddress): readonly string[] {
  return Array.from({ length: PARTITIONS }, (_, at) => `v1/load#${encodeSegment(pool.namespace)}#${at}`);
}

export function loadSortPrefix(pool: PoolAddress): string {
  return `${poolPath(pool)}/`;
}

/** Reverses `loadItemKey`; undefined for what is no such key. */
export function rankOfSortKey(sortKey: string): RankId | undefined {
  const match = /\/([0-9a-f]{1,16})\/(\d{1,9})$/.exec(sortKey);
  return match === null ? undefined : { workerId: match[1] ?? '', dpRank: Number(match[2]) };
}

/** Copies of a cell are in partitions of their own: what they are for is to spread the reads. */
export function fleetItemKey({ pool, cell, copy }: FleetItemKey): ItemKey {
  const sk = `${poolPath(pool)}/${cell}`;
  return { pk: `v1/fleet#${encodeSegment(pool.namespace)}#${partitionOf(sk, copy)}`, sk: `${sk}/${copy}` };
}

export function fleetReadsKey(pool: PoolAddress): ItemKey {
  return { pk: `v1/fleet-reads#${encodeSegment(pool.namespace)}`, sk: poolPath(pool) };
}

export function leaseKey({ namespace, name }: StateName): ItemKey {
  return { pk: `v1/leases#${encodeSegment(namespace)}`, sk: encodeSegment(name) };
}

export function pointerKey({ namespace, name }: StateName): ItemKey {
  return { pk: `v1/snapshots#${encodeSegment(namespace)}`, sk: encodeSegment(name) };
}

/** Slots for the marks of deciders on one counter; two deciders share a slot now and then. */
const MARKS = 8;

/** The attributes that say which change of this decider came last. */
export function markAttributes(deciderId: string): { readonly deciderId: string; readonly number: string } {
  const slot = partitionOf(deciderId) % MARKS;
  return { deciderId: `markBy${slot}`, number: `markAt${slot}` };
}

function poolPath({ component, endpoint }: PoolAddress): string {
  return `${encodeSegment(component)}/${encodeSegment(endpoint)}`;
}

/** Undefined when a decider has touched what its worker had withdrawn already, or the row is not ours. */
export function toLoadRow(item: Item): LoadRow | undefined {
  const rank = rankOfSortKey(item.sk?.S ?? '');
  if (rank === undefined || item.number === undefined) return undefined;
  return {
    rank,
    active: amountsOf(item, 'active'),
    reserved: amountsOf(item, 'res'),
    acked: amountsOf(item, 'acked'),
    kvUsedBlocks: numberOf(item.kvUsedBlocks),
    reportNumber: numberOf(item.number),
    reportedAtMs: numberOf(item.reportedAtMs),
  };
}

/** Attributes that were never written count 0. */
export function amountsOf(item: Item | undefined, prefix: 'res' | 'active' | 'acked'): RankWeight {
  return {
    requests: numberOf(item?.[`${prefix}Requests`]),
    decodeBlocks: numberOf(item?.[`${prefix}Blocks`]),
    prefillTokens: numberOf(item?.[`${prefix}Prefill`]),
  };
}

export function toFleetItemRow(item: Item | undefined): FleetItemRow | undefined {
  const body = item?.body?.B;
  return body === undefined ? undefined : { body, writtenAtMs: numberOf(item?.writtenAtMs) };
}

export function toLeaseRow(item: Item | undefined): LeaseRow | undefined {
  if (item === undefined) return undefined;
  return {
    holder: item.holder?.S ?? '',
    fence: numberOf(item.fence),
    expiresAtMs: numberOf(item.expiresAtMs),
    ttlMs: numberOf(item.ttlMs),
  };
}

export function toPointer(item: Item | undefined): SnapshotPointer | undefined {
  if (item === undefined) return undefined;
  const previous = placeOf(item.prevCreatedAt, item.prevSequence, item.prevObject);
  const place = placeOf(item.createdAt, item.sequence, item.object);
  if (place === undefined) return undefined;
  return { ...place, fence: numberOf(item.fence), version: numberOf(item.version), previous };
}

function placeOf(
  createdAt: Item[string] | undefined,
  sequence: Item[string] | undefined,
  object: Item[string] | undefined,
): SnapshotPlace | undefined {
  if (createdAt?.S === undefined || object?.S === undefined) return undefined;
  return { createdAt: createdAt.S, sequence: numberOf(sequence), object: object.S };
}

export function numberOf(attribute: Item[string] | undefined): number {
  return Number(attribute?.N ?? 0);
}
