/** A lease as read from the table. */
export interface LeaseRow {
  readonly leaseId: string;
  readonly epoch: number;
  /** Table time. */
  readonly expiresAtMs: number;
  readonly ttlMs: number;
}

interface Sighting {
  readonly epoch: number;
  readonly expiresAtMs: number;
  /** Monotonic time when the lease was first seen, or last seen changed. */
  changedAtMs: number;
  /** It was seen to change, so its holder is known to renew it. */
  readonly hasChanged: boolean;
  lastSeenAtMs: number;
  readonly ttlMs: number;
}

/**
 * Which leases are alive. A lease that this process has seen change is judged by its own monotonic clock
 * alone: alive for one time to live after each change, whatever either clock says. One that it has only just met is judged
 * by table time, with `skewMs` to spare.
 *
 *   first sight --> by table time, for one TTL at most      seen to change --> one TTL from each change
 *        ^---------- not looked at for longer than one TTL -----------------------'
 */
export class LeaseLiveness {
  readonly #skewMs: number;
  readonly #sightings = new Map<string, Sighting>(); // forgotten one TTL after the lease was last in a reading
  /** Epochs of leases that others saw alive just now; each counts for its first sight. */
  readonly #trusted = new Map<string, number>();

  constructor(skewMs: number) {
    this.#skewMs = skewMs;
  }

  /** Takes note of `lease` as read at monotonic `nowMs` and table time `tableNowMs`; true when it is alive. */
  observe(lease: LeaseRow, nowMs: number, tableNowMs: number): boolean {
    const before = this.#sightings.get(lease.leaseId);
    const isKnown = before !== undefined && nowMs - before.lastSeenAtMs <= before.ttlMs;
    if (isKnown && before.expiresAtMs === lease.expiresAtMs && before.epoch === lease.epoch) {
      before.lastSeenAtMs = nowMs;
      return this.#isAlive(before, nowMs, tableNowMs);
    }
    const hasChanged = isKnown || this.#trusted.get(lease.leaseId) === lease.epoch;
    this.#trusted.delete(lease.leaseId);
    const sighting: Sighting = { ...lease, changedAtMs: nowMs, hasChanged, lastSeenAtMs: nowMs };
    this.#sightings.set(lease.leaseId, sighting);
    return this.#isAlive(sighting, nowMs, tableNowMs);
  }

  /** Others have seen the lease alive just now: if this process has not met it yet, it counts as seen to change when it does. */
  trust(leaseId: string, epoch: number): void {
    if (!this.#sightings.has(leaseId)) this.#trusted.set(leaseId, epoch);
  }

  /**
   * The table could not be read until `nowMs`, nor perhaps be written: time without a look does not count against a lease,
   * so that an outage does not look like the death of every worker.
   */
  excuseOutage(nowMs: number): void {
    for (const sighting of this.#sightings.values()) {
      sighting.changedAtMs += nowMs - sighting.lastSeenAtMs;
      sighting.lastSeenAtMs = nowMs;
    }
  }

  /** Forgets leases that no reading has shown for one time to live, and all trust: it was for the reading that has ended. */
  prune(nowMs: number): void {
    this.#trusted.clear();
    for (const [leaseId, sighting] of this.#sightings) {
      if (nowMs - sighting.lastSeenAtMs > sighting.ttlMs) this.#sightings.delete(leaseId);
    }
  }

  #isAlive(sighting: Sighting, nowMs: number, tableNowMs: number): boolean {
    if (nowMs - sighting.changedAtMs >= sighting.ttlMs) return false;
    return sighting.hasChanged || sighting.expiresAtMs >= tableNowMs - this.#skewMs;
  }
}
