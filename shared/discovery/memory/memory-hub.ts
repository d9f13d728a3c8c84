import { type Clock, systemClock, type Timer } from '../../clock/index.ts';
import { BUCKETS } from '../keys.ts';
import type { Bucket } from '../types.ts';

interface Entry {
  readonly leaseId: string;
  readonly text: string;
}

/** Told that an entry has changed; reads it with `MemoryHub.text`. */
export type HubListener = (bucket: Bucket, key: string) => void;

/**
 * The store of the memory back end: entries under leases that expire on the hub's clock. Handles that share a hub see each
 * other. A listener that changes the hub again is told of that change after everyone was told of the first.
 */
export class MemoryHub {
  readonly #clock: Clock;
  readonly #entries = new Map<Bucket, Map<string, Entry>>(BUCKETS.map((bucket) => [bucket, new Map()]));
  readonly #expiries = new Map<string, Timer>(); // by lease id
  readonly #listeners = new Set<HubListener>();
  readonly #changes: (readonly [Bucket, string])[] = []; // emptied before `put` and its like return
  #isTelling = false;

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  /** Extends the lease, or makes it. False when it is new: whatever it held before is gone. */
  renew(leaseId: string, ttlMs: number): boolean {
    const previous = this.#expiries.get(leaseId);
    previous?.cancel();
    this.#expiries.set(
      leaseId,
      this.#clock.after(ttlMs, () => this.drop(leaseId)),
    );
    return previous !== undefined;
  }

  put(bucket: Bucket, key: string, leaseId: string, text: string): void {
    this.#bucket(bucket).set(key, { leaseId, text });
    this.#tell([[bucket, key]]);
  }

  /** Removes the entry if the lease holds it. */
  remove(bucket: Bucket, key: string, leaseId: string): void {
    if (this.#bucket(bucket).get(key)?.leaseId !== leaseId) return;
    this.#bucket(bucket).delete(key);
    this.#tell([[bucket, key]]);
  }

  /** Ends the lease and removes everything under it. */
  drop(leaseId: string): void {
    this.#expiries.get(leaseId)?.cancel();
    this.#expiries.delete(leaseId);
    const removed: (readonly [Bucket, string])[] = [];
    for (const [bucket, entries] of this.#entries) {
      for (const [key, entry] of entries) {
        if (entry.leaseId !== leaseId) continue;
        entries.delete(key);
        removed.push([bucket, key]);
      }
    }
    this.#tell(removed);
  }

  text(bucket: Bucket, key: string): string | undefined {
    return this.#bucket(bucket).get(key)?.text;
  }

  /** Every entry of the bucket, by key. */
  texts(bucket: Bucket): ReadonlyMap<string, string> {
    return new Map([...this.#bucket(bucket)].map(([key, { text }]) => [key, text]));
  }

  listen(listener: HubListener): void {
    this.#listeners.add(listener);
  }

  unlisten(listener: HubListener): void {
    this.#listeners.delete(listener);
  }

  #bucket(bucket: Bucket): Map<string, Entry> {
    const entries = this.#entries.get(bucket);
    if (entries === undefined) throw new Error(`unknown discovery bucket ${bucket}`);
    return entries;
  }

  #tell(changes: readonly (readonly [Bucket, string])[]): void {
    this.#changes.push(...changes);
    if (this.#isTelling) return; // the call further up the stack goes on with what was added
    this.#isTelling = true;
    try {
      for (let change = this.#changes.shift(); change !== undefined; change = this.#changes.shift()) {
        for (const listener of this.#listeners) listener(...change);
      }
    } finally {
      this.#isTelling = false;
    }
  }
}

/** The hub that handles of this process share unless they are given another one. */
export const processHub = new MemoryHub();
