import type { Clock } from '../../clock/index.ts';
import { inBatches } from '../../concurrency/index.ts';
import { addressOf, type RecordAddress } from '../keys.ts';
import { DiscoveryError } from '../options.ts';
import type { DiscoveryRecord } from '../records.ts';
import type { Table } from '../table/table.ts';
import type { TableTime } from '../table/table-time.ts';
import { type OwnCard, ownCardOf } from './catalogue.ts';
import { packRecord } from './fleet/record-bytes.ts';
import { leaseItemKey, recordItemKey } from './schema.ts';

/** A record of this process in the table. */
export interface OwnedRecord {
  readonly address: RecordAddress;
  /** Packed record. */
  readonly bytes: Uint8Array;
  readonly instanceId: string;
  /** Card of a model record. */
  readonly card?: OwnCard;
}

interface LeaseWriterOptions {
  readonly table: Table;
  readonly time: TableTime;
  readonly clock: Clock;
  readonly leaseId: string;
  readonly ttlMs: number;
  /** Returns the current packed loads of the workers of this process. */
  readonly load: () => Uint8Array;
  /** Receives the order to drain that stands in the lease, with each write of the lease. */
  readonly onOrder?: (order: string) => void;
}

const GARBAGE_AFTER_S = 3600;
const RECORD_GARBAGE_AFTER_S = 30 * 86_400;
const EPOCH_IS_MINE = 'attribute_exists(sk) AND epoch = :epoch';

/** Writes the items of one process: its lease and its records. */
export class LeaseWriter {
  readonly #options: LeaseWriterOptions;
  #epoch = 0;
  /**
   * Counts changes of the records. It grows before the write that reports a change, so that a report differs from an
   * earlier one whose answer was lost.
   */
  #rev = 0;

  constructor(options: LeaseWriterOptions) {
    this.#options = options;
  }

  /**
   * Writes the lease if there is none yet. Resolves with the monotonic time of the request, or with undefined if a
   * lease exists.
   */
  async ensureLease(signal: AbortSignal): Promise<number | undefined> {
    if (this.#epoch > 0) return undefined;
    const sentAtMs = this.#options.clock.nowMs();
    await this.#writeLease(1, signal);
    this.#epoch = 1;
    return sentAtMs;
  }

  /** Creates or replaces a record under the current epoch. Readers see it when the lease reports a change. */
  async writeRecord({ address, bytes }: OwnedRecord, signal: AbortSignal): Promise<void> {
    const { table, time, leaseId } = this.#options;
    const ttl = Math.ceil(time.nowMs() / 1000) + RECORD_GARBAGE_AFTER_S;
    await table.update(
      'SET #record = :record, epoch = :epoch, #ttl = :ttl',
      {
        key: recordItemKey(leaseId, address),
        names: { '#record': 'record', '#ttl': 'ttl' },
        values: { ':record': bytes, ':epoch': this.#epoch, ':ttl': ttl },
      },
      signal,
    );
  }

  async deleteRecord(address: RecordAddress, signal: AbortSignal): Promise<void> {
    await this.#options.table.delete({ key: recordItemKey(this.#options.leaseId, address) }, signal);
  }

  /** Reports in the lease that the records have changed, which also renews it. Returns false as `renew` does. */
  tellChange(signal: AbortSignal): Promise<boolean> {
    this.#rev++;
    return this.renew(signal);
  }

  /**
   * Extends the lease and writes the loads of its workers, in one write. Returns false if the lease is gone; the
   * process must then register everything again.
   */
  renew(signal: AbortSignal): Promise<boolean> {
    return this.#setLease(EPOCH_IS_MINE, this.#epoch, signal);
  }

  /**
   * Writes everything again under a new epoch. Records come first and the lease last, so that readers see everything at
   * once, and the remains of an earlier epoch stay dead.
   */
  async registerAgain(records: readonly OwnedRecord[], signal: AbortSignal): Promise<void> {
    // The new epoch stays even if the rest fails: the next attempt finds no lease of this epoch and takes the next one.
    this.#epoch++;
    this.#rev++;
    await inBatches(records, (record) => this.writeRecord(record, signal));
    await this.#writeLease(this.#epoch, signal);
  }

  /**
   * Ends the lease, which withdraws everything at once. Then deletes the records, and the lease last: while it exists,
   * a process that cleans up knows that records may be left.
   */
  async withdraw(records: readonly OwnedRecord[], signal: AbortSignal): Promise<void> {
    if (this.#epoch === 0) return;
    const { table, leaseId } = this.#options;
    const mine = { key: leaseItemKey(leaseId), condition: EPOCH_IS_MINE, values: { ':epoch': this.#epoch } };
    const isMine = await table.update(
      'SET expiresAtMs = :never, rev = :none',
      { ...mine, values: { ...mine.values, ':never': 0, ':none': 0 } },
      signal,
    );
    if (!isMine) return; // the process that took the lease cleans up
    await inBatches(records, ({ address }) => this.deleteRecord(address, signal));
    await table.delete(mine, signal);
  }

  /** `<=` rather than `<`, because a write whose answer was lost is repeated under the same epoch. */
  async #writeLease(epoch: number, signal: AbortSignal): Promise<void> {
    const condition = 'attribute_not_exists(sk) OR epoch <= :epoch';
    if (await this.#setLease(condition, epoch, signal)) return;
    throw new DiscoveryError('unavailable', `lease ${this.#options.leaseId} is held under a later epoch`);
  }

  /** Its answer is the whole item, so that an order to drain costs no read. */
  async #setLease(condition: string, epoch: number, signal: AbortSignal): Promise<boolean> {
    const { table, time, ttlMs, leaseId, load, onOrder } = this.#options;
    const expiresAtMs = time.nowMs() + ttlMs;
    const { isApplied, item } = await table.updateAndGet(
      'SET expiresAtMs = :expires, ttlMs = :ttlMs, epoch = :epoch, rev = :rev, #load = :load, #ttl = :ttl',
      {
        key: leaseItemKey(leaseId),
        condition,
        names: { '#ttl': 'ttl', '#load': 'load' },
        values: {
          ':expires': expiresAtMs,
          ':ttlMs': ttlMs,
          ':epoch': epoch,
          ':rev': this.#rev,
          ':load': load(),
          ':ttl': Math.ceil(expiresAtMs / 1000) + GARBAGE_AFTER_S,
        },
      },
      signal,
    );
    if (isApplied && item?.drain?.S !== undefined) onOrder?.(item.drain.S);
    return isApplied;
  }
}

/** Writes an order to drain into the lease of another process. Returns false if there is no such lease. */
export function orderLease(table: Table, leaseId: string, order: string, signal: AbortSignal): Promise<boolean> {
  const change = {
    key: leaseItemKey(leaseId),
    condition: 'attribute_exists(sk)',
    names: { '#drain': 'drain' },
    values: { ':drain': order },
  };
  return table.update('SET #drain = :drain', change, signal);
}

/** Returns the record as its process writes it. */
export function toOwned(record: DiscoveryRecord): OwnedRecord {
  const [address, instanceId] = [addressOf(record), record.instance_id];
  if (record.type === 'EventSource' || record.wire === 'dynamo') {
    throw new DiscoveryError('misconfigured', 'a table has no place for records of Dynamo, which never reads one');
  }
  if (record.type !== 'Model') return { address, instanceId, bytes: packRecord(record) };
  const card = ownCardOf(record);
  const { card: _, ...rest } = record;
  const bytes = packRecord({ ...rest, cardSum: card.split.sum, ownCard: card.split.own });
  return { address, instanceId, bytes, card };
}

/** Returns the key that tells the records of one process apart. */
export function nameOf({ address }: { readonly address: RecordAddress }): string {
  return `${address.bucket}/${address.key}`;
}
