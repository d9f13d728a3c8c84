import type { Clock } from '../../clock/index.ts';
import type { Table } from '../table/table.ts';
import type { DeadLease } from './lease-scan.ts';
import { leaseItemKey, recordsPartition } from './schema.ts';

const DELETES_MAX = 100;
const DELETES_WINDOW_MS = 60_000;

/**
 * Deletes the items of dead processes, at most 100 per minute. If a lease stayed dead and unchanged for `afterMs`, the
 * cleaner first raises its epoch. A holder that comes back then finds its lease gone and registers again, under an
 * epoch whose records the cleaner does not touch. The lease goes last, so that no record remains without a lease to
 * find it by.
 */
export class LeaseCleaner {
  readonly #table: Table;
  readonly #clock: Clock;
  readonly #afterMs: number;
  #deadSinceMs = new Map<string, number>(); // by lease and epoch; only those of the last reading
  #windowFromMs = Number.NEGATIVE_INFINITY;
  #deletes = 0;

  constructor(table: Table, clock: Clock, afterMs: number) {
    this.#table = table;
    this.#clock = clock;
    this.#afterMs = afterMs;
  }

  /** Notes the dead leases of a reading, and deletes those whose time has come. */
  async clean(dead: readonly DeadLease[], signal: AbortSignal): Promise<void> {
    const nowMs = this.#clock.nowMs();
    const deadSinceMs = new Map<string, number>();
    for (const lease of dead) deadSinceMs.set(nameOf(lease), this.#deadSinceMs.get(nameOf(lease)) ?? nowMs);
    this.#deadSinceMs = deadSinceMs;
    if (nowMs - this.#windowFromMs >= DELETES_WINDOW_MS) [this.#windowFromMs, this.#deletes] = [nowMs, 0];
    for (const lease of dead) {
      if (this.#deletes >= DELETES_MAX) return;
      if (nowMs - (deadSinceMs.get(nameOf(lease)) ?? nowMs) >= this.#afterMs) await this.#clear(lease, signal);
    }
  }

  async #clear({ leaseId, epoch, expiresAtMs }: DeadLease, signal: AbortSignal): Promise<void> {
    const [key, marked] = [leaseItemKey(leaseId), epoch + 1];
    const isMarked = await this.#table.update(
      'SET epoch = :marked, rev = :none, expiresAtMs = :never',
      {
        key,
        condition: 'epoch = :epoch AND expiresAtMs = :expires',
        values: { ':marked': marked, ':none': 0, ':never': 0, ':epoch': epoch, ':expires': expiresAtMs },
      },
      signal,
    );
    if (!isMarked) return; // its holder is back
    for (const item of await this.#table.query(recordsPartition(leaseId), undefined, signal)) {
      if (++this.#deletes > DELETES_MAX) return; // a marked lease counts as dead, and the rest follows later
      const [pk, sk] = [item.pk?.S ?? '', item.sk?.S ?? ''];
      await this.#table.delete(
        { key: { pk, sk }, condition: 'epoch < :marked', values: { ':marked': marked } },
        signal,
      );
    }
    this.#deletes++;
    const isStill = 'epoch = :marked AND expiresAtMs = :never';
    await this.#table.delete({ key, condition: isStill, values: { ':marked': marked, ':never': 0 } }, signal);
  }
}

function nameOf({ leaseId, epoch }: DeadLease): string {
  return `${leaseId}/${epoch}`;
}
