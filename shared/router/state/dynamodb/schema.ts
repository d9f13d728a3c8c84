import { type ItemKey, PARTITIONS, partitionOf } from '../../../discovery/table/index.ts';
import { encodeSegment } from '../../../planes/names/index.ts';
import type { FleetItemKey, PoolAddress, RankId, StateName } from '../types.ts';

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
