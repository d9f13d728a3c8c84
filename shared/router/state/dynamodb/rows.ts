import type { Item } from '../../../discovery/table/index.ts';
import type { LoadAmounts } from '../load/load-amounts.ts';
import type { FleetItemRow, LeaseRow, LoadRow, SnapshotPlace, SnapshotPointer } from '../types.ts';
import { rankOfSortKey } from './schema.ts';

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
export function amountsOf(item: Item | undefined, prefix: 'res' | 'active' | 'acked'): LoadAmounts {
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
