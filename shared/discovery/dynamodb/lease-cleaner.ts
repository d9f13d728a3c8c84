import type { Clock } from '../../clock/index.ts';
import type { Table } from '../table/table.ts';
import type { DeadLease } from './lease-scan.ts';
import { leaseItemKey, recordsPartition } from './schema.ts';

const DELETES_MAX = 100;
const DELETES_WINDOW_MS = 60_000;

/**
 * Deletes what dead processes left, at most 100 items per minute. A lease that was seen dead for `afterMs` and did not
 * change is first marked by a higher epoch. A holder that comes back then finds no lease and registers everything
 * again, under an epoch whose records are left alone. The lease goes last, so that no record remains under a lease that
 * cannot be found.
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

  /** Notes the dead leases of a reading, and clears away those that are due. */
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
      if (++this.#deletes > DELETES_MAX) return; // the marked lease counts as dead: the rest goes later
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
