import type { Clock } from '../../clock/index.ts';
import type { Item } from '../table/table.ts';
import { ageMs, type Moment, momentOf, type TableTime } from '../table/table-time.ts';
import { type HeadBody, unpackHead } from './fleet/view-bytes.ts';

/** The head of the view in the table. It is also the lease of the process that writes the view. */
export interface ViewHead {
  /** Fence of the process that holds it, under which cells and head are written. */
  readonly fence: number;
  /** Holder; empty if it was given up, so that any process may take it. */
  readonly holder: string;
  /** Table time when the body was written. */
  readonly writtenAtMs: number;
  /** Table time when the holder took it. */
  readonly takenAtMs: number;
  /**
   * Fence under which the body and its cells were written. It is lower than `fence` until the holder has written its
   * first view.
   */
  readonly bodyFence: number;
  /** Content; undefined if there is none yet, or if a later version wrote it. */
  readonly body: HeadBody | undefined;
}

/** Judgement of a head. */
export interface HeadState {
  /** Whether the view of this head is usable. */
  readonly isFresh: boolean;
  /** Whether its holder is gone, so that another process may take the head. */
  readonly isTakeable: boolean;
}

/** Age in times to live at which a head that was just met is taken, however wrong this process's clock may be. */
const TTLS_UNSEEN = 3;

/** Returns the head that an item of the table holds. */
export function toViewHead(item: Item): ViewHead {
  return {
    fence: numberOf(item.fence),
    holder: item.holder?.S ?? '',
    writtenAtMs: numberOf(item.writtenAtMs),
    takenAtMs: numberOf(item.takenAtMs),
    bodyFence: numberOf(item.bodyFence),
    body: item.body?.B === undefined ? undefined : unpackHead(item.body.B),
  };
}

/**
 * Judges whether a process keeps the head up. Once this process has seen it change, its own clock decides: the head is
 * fresh for one time to live after each change, and free to take after that. A head that it has just met is judged by
 * table time.
 *
 *     just met       --> table time: fresh for one TTL, takeable after three
 *     seen to change --> own clock: one TTL from each change
 */
export class HeadWatch {
  readonly #time: TableTime;
  readonly #ttlMs: number;
  readonly #writing: Sightings;
  readonly #holding: Sightings;

  constructor(clock: Clock, time: TableTime, ttlMs: number) {
    this.#time = time;
    this.#ttlMs = ttlMs;
    this.#writing = new Sightings(clock, ttlMs);
    this.#holding = new Sightings(clock, ttlMs);
  }

  observe({ fence, holder, writtenAtMs, takenAtMs, body }: ViewHead): HeadState {
    this.#writing.look(`${writtenAtMs}`);
    this.#holding.look(`${fence}/${writtenAtMs}/${takenAtMs}`);
    const nowMs = this.#time.nowMs();
    const unwrittenMs = this.#writing.hasChanged ? this.#writing.unchangedMs : nowMs - writtenAtMs;
    const isIdle = this.#holding.unchangedMs > this.#ttlMs;
    const isLongGone = nowMs - Math.max(writtenAtMs, takenAtMs) > TTLS_UNSEEN * this.#ttlMs;
    return {
      isFresh: body !== undefined && unwrittenMs <= this.#ttlMs,
      isTakeable: holder === '' || isIdle || isLongGone,
    };
  }
}

/** Time since which a value has been the same, as far as occasional readings can tell. */
class Sightings {
  readonly #clock: Clock;
  readonly #ttlMs: number;
  #value: string | undefined;
  #since: Moment | undefined;
  #looked: Moment | undefined;
  /** Whether two readings, at most one TTL apart, saw the change to the current value. */
  hasChanged = false;

  constructor(clock: Clock, ttlMs: number) {
    this.#clock = clock;
    this.#ttlMs = ttlMs;
  }

  get unchangedMs(): number {
    return this.#since === undefined ? 0 : ageMs(this.#since, this.#clock);
  }

  look(value: string): void {
    const now = momentOf(this.#clock);
    if (value !== this.#value) {
      this.hasChanged = this.#looked !== undefined && ageMs(this.#looked, this.#clock) <= this.#ttlMs;
      this.#value = value;
      this.#since = now;
    }
    this.#looked = now;
  }
}

function numberOf(attribute: Item[string] | undefined): number {
  return Number(attribute?.N);
}
