import type { Item, ItemKey } from '../../discovery/table/index.ts';
import { encodeSegment } from '../../planes/names/index.ts';
import type { LeaseRow, SnapshotPlace, SnapshotPointer, StateName } from './types.ts';

/*
 * The router-state table.
 *
 *   pk                  sk       attributes, by writer
 *   v1/leases#{ns}      {name}   holders: holder fence expiresAtMs ttlMs
 *   v1/snapshots#{ns}   {name}   lease holder: createdAt sequence object fence version prev*
 */

export function leaseKey({ namespace, name }: StateName): ItemKey {
  return { pk: `v1/leases#${encodeSegment(namespace)}`, sk: encodeSegment(name) };
}

export function pointerKey({ namespace, name }: StateName): ItemKey {
  return { pk: `v1/snapshots#${encodeSegment(namespace)}`, sk: encodeSegment(name) };
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

function numberOf(attribute: Item[string] | undefined): number {
  return Number(attribute?.N ?? 0);
}
