import type { Clock } from '../../clock/index.ts';

/** Resolution of an HTTP `Date` header. */
const DATE_STEP_MS = 1000;

/**
 * Table time: Unix time as the table's answers tell it, so that the clocks of writers and readers
 * need not agree. Each answer bounds the offset to the own monotonic clock; the bounds of successive answers are
 * intersected, which gets far below the header's resolution.
 *
 *   sent ----[ server wrote Date: D <= t < D + 1 s ]---- received      offset in (D - received, D + 1 s - sent)
 */
export class TableTime {
  readonly #clock: Clock;
  #offsetMinMs = Number.NEGATIVE_INFINITY;
  #offsetMaxMs = Number.POSITIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Takes note of an answer. `sentMs` and `receivedMs` are monotonic; an unreadable header is ignored. */
  observe(dateHeader: string | undefined, sentMs: number, receivedMs: number): void {
    const dateMs = Date.parse(dateHeader ?? '');
    if (Number.isNaN(dateMs)) return;
    const minMs = dateMs - receivedMs;
    const maxMs = dateMs + DATE_STEP_MS - sentMs;
    const narrowedMinMs = Math.max(this.#offsetMinMs, minMs);
    const narrowedMaxMs = Math.min(this.#offsetMaxMs, maxMs);
    const isConsistent = narrowedMinMs <= narrowedMaxMs; // else a clock has drifted or stepped: only the newest counts
    this.#offsetMinMs = isConsistent ? narrowedMinMs : minMs;
    this.#offsetMaxMs = isConsistent ? narrowedMaxMs : maxMs;
  }

  /** Unix milliseconds, integer. The machine's own until the first answer. */
  nowMs(): number {
    if (!Number.isFinite(this.#offsetMinMs)) return this.#clock.wallMs();
    return Math.round(this.#clock.nowMs() + (this.#offsetMinMs + this.#offsetMaxMs) / 2);
  }
}

/**
 * A point in time on both clocks. The monotonic one may stand still while a machine is suspended, the wall clock may be set:
 * an age that must not be taken for smaller than it is needs both.
 */
export interface Moment {
  readonly nowMs: number;
  readonly wallMs: number;
}

export function momentOf(clock: Clock): Moment {
  return { nowMs: clock.nowMs(), wallMs: clock.wallMs() };
}

/** Milliseconds since `moment`, by the clock that saw more of them pass. */
export function ageMs(moment: Moment, clock: Clock): number {
  return Math.max(clock.nowMs() - moment.nowMs, clock.wallMs() - moment.wallMs);
}
