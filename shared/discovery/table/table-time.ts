import type { Clock } from '../../clock/index.ts';

/** Resolution of an HTTP `Date` header. */
const DATE_STEP_MS = 1000;

/**
 * Table time: Unix time by the table's answers, so that the clocks of writers and readers need not agree. Each answer
 * bounds the offset to this process's monotonic clock. The intersection of successive bounds is far more precise than
 * the header.
 *
 *     sent ----[ server wrote Date: D <= t < D + 1 s ]---- received
 *
 * The offset is then in (D - received, D + 1 s - sent).
 */
export class TableTime {
  readonly #clock: Clock;
  #offsetMinMs = Number.NEGATIVE_INFINITY;
  #offsetMaxMs = Number.POSITIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes the time of an answer. `sentMs` and `receivedMs` are monotonic; an unreadable header is ignored. */
  observe(dateHeader: string | undefined, sentMs: number, receivedMs: number): void {
    const dateMs = Date.parse(dateHeader ?? '');
    if (Number.isNaN(dateMs)) return;
    const minMs = dateMs - receivedMs;
    const maxMs = dateMs + DATE_STEP_MS - sentMs;
    const narrowedMinMs = Math.max(this.#offsetMinMs, minMs);
    const narrowedMaxMs = Math.min(this.#offsetMaxMs, maxMs);
    // otherwise a clock has drifted or stepped, and only the newest answer counts
    const isConsistent = narrowedMinMs <= narrowedMaxMs;
    this.#offsetMinMs = isConsistent ? narrowedMinMs : minMs;
    this.#offsetMaxMs = isConsistent ? narrowedMaxMs : maxMs;
  }

  /** Unix milliseconds, an integer. Before the first answer it is the machine's own time. */
  nowMs(): number {
    if (!Number.isFinite(this.#offsetMinMs)) return this.#clock.wallMs();
    return Math.round(this.#clock.nowMs() + (this.#offsetMinMs + this.#offsetMaxMs) / 2);
  }
}

/** Difference of clocks below which they count as equal: the precision of a table's time. */
const EQUAL_MS_MAX = 2000;

/**
 * By how much the clock of a table is ahead of this process's wall clock. It changes only with a clock that is set, so
 * that the same time of this process always gives the same time of the table.
 */
export class TableAhead {
  readonly #time: TableTime;
  readonly #clock: Clock;
  #ms = 0;

  constructor(time: TableTime, clock: Clock) {
    this.#time = time;
    this.#clock = clock;
  }

  /** Milliseconds, negative if the table is behind; 0 if the clocks agree within two seconds. */
  get ms(): number {
    const ms = Math.round(this.#time.nowMs() - this.#clock.wallMs());
    if (Math.abs(ms - this.#ms) > EQUAL_MS_MAX) this.#ms = Math.abs(ms) > EQUAL_MS_MAX ? ms : 0;
    return this.#ms;
  }
}

/**
 * A point in time on both clocks. The monotonic clock may stand still while a machine is suspended, and the wall clock
 * may be set. An age that must not be underestimated needs both.
 */
export interface Moment {
  readonly nowMs: number;
  readonly wallMs: number;
}

export function momentOf(clock: Clock): Moment {
  return { nowMs: clock.nowMs(), wallMs: clock.wallMs() };
}

/** Returns the milliseconds since `moment`, by the clock on which more time has passed. */
export function ageMs(moment: Moment, clock: Clock): number {
  return Math.max(clock.nowMs() - moment.nowMs, clock.wallMs() - moment.wallMs);
}
