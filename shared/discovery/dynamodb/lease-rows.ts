import type { Item, Table } from '../table/table.ts';
import { packBlock } from './fleet/record-bytes.ts';
import type { LeaseRow } from './lease-liveness.ts';
import { recordsPartition } from './schema.ts';

/** A lease as its process writes it. */
export interface LeaseItem extends LeaseRow {
  /** Raised by each change of the records; 0 = nothing was registered yet, or the lease was given up. */
  readonly rev: number;
  readonly load: Uint8Array;
}

const NOTHING: Uint8Array = new Uint8Array();

/** Undefined for what is none of ours. */
export function toLeaseRow(item: Item): LeaseItem | undefined {
  const leaseId = item.sk?.S;
  const numbers = [item.epoch, item.rev, item.expiresAtMs, item.ttlMs].map((attribute) => Number(attribute?.N));
  const [epoch = 0, rev = 0, expiresAtMs = 0, ttlMs = 0] = numbers;
  if (leaseId === undefined || !/^[0-9a-f]{1,16}$/.test(leaseId) || !numbers.every(Number.isSafeInteger))
    return undefined;
  return { leaseId, epoch, rev, expiresAtMs, ttlMs, load: item.load?.B ?? NOTHING };
}

/** The records that a lease holds in its present epoch, as one block. */
export async function readRecords(
  table: Table,
  { leaseId, epoch }: Pick<LeaseRow, 'leaseId' | 'epoch'>,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const items = await table.query(recordsPartition(leaseId), undefined, signal);
  return packBlock(items.flatMap((item) => (Number(item.epoch?.N) === epoch && item.record?.B ? [item.record.B] : [])));
}
