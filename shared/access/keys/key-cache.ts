import type { Clock } from '../../clock/index.ts';
import { RateBudget } from '../../concurrency/index.ts';
import { ServeError } from '../../errors/index.ts';
import { BoundedMap } from '../../records/index.ts';
import { ReadyKey } from './key-record.ts';
import type { KeyStore } from './key-store.ts';

export interface KeyCacheOptions {
  readonly store: Pick<KeyStore, 'get'>;
  readonly clock: Clock;
  /**
   * How long a record counts without being read again, which is the longest time until a revoked key is refused while
   * the store answers (`STATOR_KEY_CACHE_SECS`).
   */
  readonly freshMs: number;
  /** Called when a read of the store has ended. */
  readonly onRead?: (outcome: 'found' | 'unknown' | 'failed', failure?: unknown) => void;
}

/** Number of records that are remembered; the one read longest ago leaves first. */
const KNOWN_MAX = 10_000;
/** Number of ids without a key that are remembered, so that they are not looked up again. */
const UNKNOWN_MAX = 4096;
const UNKNOWN_MS = 5000;
/** How long known keys stay valid while the store cannot be read. */
const AWAY_MS_MAX = 600_000;
/** Pause between two attempts to read a store that cannot be read. */
const RETRY_MS = 1000;
/** Rate of lookups of unknown ids: anyone can make up ids, and each costs a read. */
const LOOKS_PER_SECOND = 50;
const LOOKS_AT_ONCE = 200;
/** Age from which a record is read again for a key that does not match it: the key may have been rotated since. */
const REREAD_MS = 5000;

interface Known {
  readonly ready: ReadyKey;
  readonly readAt: Instant;
  /** Time when the store may be tried again; undefined = it answered the last time. */
  retryAtMs: number | undefined;
}

/** An instant on both clocks: one clock may be set, and the other may stand still while a function is frozen. */
interface Instant {
  readonly nowMs: number;
  readonly wallMs: number;
}

/**
 * Cache of what is known about keys, so that a check costs no read. All requests that ask for a key at the same time
 * share one read.
 *
 * | Known about an id | store answers | store is away |
 * |---|---|---|
 * | nothing | read, within the rate of lookups | 503 |
 * | for 5 s: no key has it | no key | no key |
 * | a fresh record | the record | the record |
 * | an older record | read again | the record for 10 minutes, then 503 |
 */
export class KeyCache {
  readonly #options: KeyCacheOptions;
  readonly #known = new BoundedMap<string, Known>(KNOWN_MAX);
  /** Time until which each id counts as unknown; the oldest come first. */
  readonly #unknown = new BoundedMap<string, number>(UNKNOWN_MAX);
  readonly #reading = new Map<string, Promise<ReadyKey | undefined>>();
  readonly #looks: RateBudget;
  #awayUntilMs = Number.NEGATIVE_INFINITY;

  constructor(options: KeyCacheOptions) {
    this.#options = options;
    this.#looks = new RateBudget(options.clock, LOOKS_PER_SECOND, LOOKS_AT_ONCE);
  }

  /** Number of entries of every kind, for tests of the limits. */
  get size(): number {
    return this.#known.size + this.#unknown.size + this.#reading.size;
  }

  /** Returns the record of an id if it is fresh, without waiting. */
  fresh(id: string): ReadyKey | undefined {
    const known = this.#known.get(id);
    return known !== undefined && this.#ageMs(known.readAt) < this.#options.freshMs ? known.ready : undefined;
  }

  /**
   * Returns the record of an id, at once if it is known; undefined if no key has the id.
   * @throws ServeError `service_unavailable`, or rejects with it
   */
  find(id: string): ReadyKey | undefined | Promise<ReadyKey | undefined> {
    const known = this.#known.get(id);
    if (known === undefined) return this.#look(id);
    const ageMs = this.#ageMs(known.readAt);
    if (ageMs < this.#options.freshMs) return known.ready;
    const { retryAtMs } = known;
    if (retryAtMs === undefined) return this.#read(id);
    // The store was away the last time. Only the first request with a record that is too old waits for the next
    // attempt.
    if (this.#options.clock.nowMs() >= retryAtMs) {
      const reading = this.#read(id);
      if (ageMs >= AWAY_MS_MAX) return reading;
      reading.catch(() => {}); // `onRead` reports it
    }
    if (ageMs < AWAY_MS_MAX) return known.ready;
    throw storeAway();
  }

  /**
   * Works like `find`, for a key that does not match the known record: reads the record again, unless that has just
   * been done.
   */
  findAgain(id: string): ReadyKey | undefined | Promise<ReadyKey | undefined> {
    const known = this.#known.get(id);
    if (known === undefined || known.retryAtMs !== undefined) return known?.ready;
    return this.#ageMs(known.readAt) < REREAD_MS ? known.ready : this.#read(id);
  }

  #look(id: string): undefined | Promise<ReadyKey | undefined> {
    const nowMs = this.#options.clock.nowMs();
    const unknownUntilMs = this.#unknown.get(id);
    if (unknownUntilMs !== undefined && nowMs < unknownUntilMs) return undefined;
    const reading = this.#reading.get(id);
    if (reading !== undefined) return reading;
    if (nowMs < this.#awayUntilMs) throw storeAway();
    if (!this.#looks.take(1)) {
      throw new ServeError('service_unavailable', 'Too many unknown API keys are being looked up; try again', {
        retryAfterMs: RETRY_MS,
      });
    }
    return this.#read(id);
  }

  #read(id: string): Promise<ReadyKey | undefined> {
    const under = this.#reading.get(id);
    if (under !== undefined) return under;
    const reading = this.#ask(id).finally(() => this.#reading.delete(id));
    this.#reading.set(id, reading);
    return reading;
  }

  async #ask(id: string): Promise<ReadyKey | undefined> {
    const { store, clock, onRead } = this.#options;
    const readAt = this.#instant(); // changes after this may be missed
    try {
      const record = await store.get(id);
      onRead?.(record === undefined ? 'unknown' : 'found');
      this.#awayUntilMs = Number.NEGATIVE_INFINITY;
      this.#known.delete(id);
      if (record === undefined) {
        this.#noteUnknown(id);
        return undefined;
      }
      const ready = new ReadyKey(record);
      this.#known.set(id, { ready, readAt, retryAtMs: undefined });
      return ready;
    } catch (thrown) {
      onRead?.('failed', thrown);
      const retryAtMs = clock.nowMs() + RETRY_MS;
      this.#awayUntilMs = retryAtMs;
      const known = this.#known.get(id);
      if (known === undefined) throw storeAway(thrown);
      known.retryAtMs = retryAtMs;
      if (this.#ageMs(known.readAt) < AWAY_MS_MAX) return known.ready;
      throw storeAway(thrown);
    }
  }

  #noteUnknown(id: string): void {
    const nowMs = this.#options.clock.nowMs();
    for (const [oldest, untilMs] of this.#unknown) {
      if (nowMs < untilMs) break;
      this.#unknown.delete(oldest);
    }
    this.#unknown.set(id, nowMs + UNKNOWN_MS);
  }

  #instant(): Instant {
    const { clock } = this.#options;
    return { nowMs: clock.nowMs(), wallMs: clock.wallMs() };
  }

  #ageMs({ nowMs, wallMs }: Instant): number {
    const { clock } = this.#options;
    return Math.max(clock.nowMs() - nowMs, clock.wallMs() - wallMs);
  }
}

function storeAway(cause?: unknown): ServeError {
  return new ServeError('service_unavailable', 'API keys cannot be looked up now', { cause, retryAfterMs: RETRY_MS });
}
