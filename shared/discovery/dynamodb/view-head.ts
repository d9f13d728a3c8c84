import type { Clock } from '../../clock/index.ts';
import { ageMs, type Moment, momentOf } from '../moment.ts';
import type { Item } from '../table/table.ts';
import type { TableTime } from '../table/table-time.ts';
import { type HeadBody, unpackHead } from './fleet/head-body.ts';

/** The head of the view as it is in the table. It is also the lease of the process that writes the view. */
export interface ViewHead {
  /** Of the process that holds it; cells and head are written under it. */
  readonly fence: number;
  /** Empty: given up, anybody may take it. */
  readonly holder: string;
  /** Table time when the body was written. */
  readonly writtenAtMs: number;
  /** Table time when the holder took it. */
  readonly takenAtMs: number;
  /** Fence under which the body and its cells were written; below `fence` until the holder has written its first view. */
  readonly bodyFence: number;
  /** Undefined when there is none yet, or of a later version. */
  readonly body: HeadBody | undefined;
}

/** How a head is to be taken. */
export interface HeadState {
  /** The view that it tells of may be used. */
  readonly isFresh: boolean;
  /** Its holder is gone: another process may take its place. */
  readonly isTakeable: boolean;
}

/** Times to live after which a head that was just met is taken, whatever this process's clock may be off. */
const TTLS_UNSEEN = 3;

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
 * Whether the head is kept up. Once this process has seen it change, its own clock decides: fresh for one time to live after
 * each change, takeable from then on. A head that it has just met is judged by table time.
 *
 *   just met --> table time: fresh for one TTL, takeable after three      seen to change --> one TTL from each change
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

/** Since when a value has been the same, as far as one can know who looks now and then. */
class Sightings {
  readonly #clock: Clock;
  readonly #ttlMs: number;
  #value: string | undefined;
  #since: Moment | undefined;
  #looked: Moment | undefined;
  /** The change to the present value was seen by two looks that are at most one TTL apart. */
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
