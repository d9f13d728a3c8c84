import type { Clock } from '../../clock/index.ts';
import type { Table } from '../table/table.ts';
import type { DeadRecord } from './table-reader.ts';

/** One sweep removes at most this many records; the rest waits for the next reading. */
const SWEEP_MAX = 25;

/**
 * Deletes what dead processes left. A record goes after `afterMs` of being seen dead, and its lease before it
 * and only if unchanged: a holder that comes back then finds its lease gone and registers everything again.
 */
export class Sweeper {
  readonly #table: Table;
  readonly #clock: Clock;
  readonly #afterMs: number;
  #deadSinceMs = new Map<string, number>(); // by lease and epoch; only what the last reading showed

  constructor(table: Table, clock: Clock, afterMs: number) {
    this.#table = table;
    this.#clock = clock;
    this.#afterMs = afterMs;
  }

  /** Takes note of the dead records of a reading of everything watched, and deletes those that are due. */
  async sweep(dead: readonly DeadRecord[], signal: AbortSignal): Promise<void> {
    const nowMs = this.#clock.nowMs();
    const deadSinceMs = new Map<string, number>();
    for (const record of dead) deadSinceMs.set(nameOf(record), this.#deadSinceMs.get(nameOf(record)) ?? nowMs);
    this.#deadSinceMs = deadSinceMs;
    const due = dead.filter((record) => nowMs - (deadSinceMs.get(nameOf(record)) ?? nowMs) >= this.#afterMs);
    for (const record of due.slice(0, SWEEP_MAX)) await this.#delete(record, signal);
  }

  async #delete({ itemKey, leaseId, epoch, lease }: DeadRecord, signal: AbortSignal): Promise<void> {
    if (lease !== undefined) {
      const isUnchanged = await this.#table.delete(
        {
          key: lease.itemKey,
          condition: 'attribute_not_exists(sk) OR (epoch = :epoch AND expiresAtMs = :expires)',
          values: { ':epoch': epoch, ':expires': lease.expiresAtMs },
        },
        signal,
      );
      if (!isUnchanged) return; // its holder is back
    }
    await this.#table.delete(
      {
        key: itemKey,
        condition: 'leaseId = :lease AND epoch = :epoch',
        values: { ':lease': leaseId, ':epoch': epoch },
      },
      signal,
    );
  }
}

function nameOf(record: DeadRecord): string {
  return `${record.leaseId}/${record.epoch}`;
}
