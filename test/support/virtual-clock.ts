import { sleepOn } from '../../shared/clock/clock.ts';
import type { Clock, Timer } from '../../shared/clock/index.ts';

interface Scheduled {
  dueMs: number;
  order: number; // timers due at the same instant fire in the order in which they were armed
  readonly periodMs: number | undefined;
  readonly callback: () => void;
}

/** Shortest period, as for the machine's timers: a shorter one would keep `advance` from ever ending. */
const PERIOD_MS_MIN = 1;

/** A clock that moves only when a test advances it. Timers fire in due order meanwhile. */
export class VirtualClock implements Clock {
  #nowMs = 0;
  #order = 0;
  readonly #epochMs: number;
  readonly #timers = new Set<Scheduled>();

  constructor(epochMs = 1_700_000_000_000) {
    this.#epochMs = epochMs;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return Math.floor(this.#epochMs + this.#nowMs);
  }

  after(delayMs: number, callback: () => void): Timer {
    return this.#arm(delayMs, undefined, callback);
  }

  every(periodMs: number, callback: () => void): Timer {
    const atLeastMs = Math.max(PERIOD_MS_MIN, periodMs);
    return this.#arm(atLeastMs, atLeastMs, callback);
  }

  sleep(delayMs: number, signal?: AbortSignal): Promise<void> {
    return sleepOn(this, delayMs, signal);
  }

  /** Number of timers that wait to fire. A test asserts 0 to prove that no timer was left armed. */
  get pendingTimers(): number {
    return this.#timers.size;
  }

  /** Moves time forward by `ms` and fires every timer that falls due. Promise callbacks run between them. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    await settle();
    for (let next = this.#nextDue(untilMs); next !== undefined; next = this.#nextDue(untilMs)) {
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      if (next.periodMs === undefined) this.#timers.delete(next);
      else {
        next.dueMs += next.periodMs;
        next.order = this.#order++;
      }
      next.callback();
      await settle();
    }
    this.#nowMs = untilMs;
  }

  /** Does the same as `advance`, but stops when the next timers are due. */
  advanceToTimers(msMax: number): Promise<void> {
    const next = this.#nextDue(this.#nowMs + msMax);
    return this.advance(next === undefined ? msMax : Math.max(0, next.dueMs - this.#nowMs));
  }

  #arm(delayMs: number, periodMs: number | undefined, callback: () => void): Timer {
    const timer = { dueMs: this.#nowMs + Math.max(0, delayMs), order: this.#order++, periodMs, callback };
    this.#timers.add(timer);
    return { cancel: () => void this.#timers.delete(timer) };
  }

  #nextDue(untilMs: number): Scheduled | undefined {
    let first: Scheduled | undefined;
    for (const timer of this.#timers) {
      if (timer.dueMs > untilMs) continue;
      const isSooner = first === undefined || timer.dueMs < first.dueMs;
      if (isSooner || (timer.dueMs === first?.dueMs && timer.order < first.order)) first = timer;
    }
    return first;
  }
}

/**
 * Gives pending promise callbacks a few turns, so that code that awaits a fired timer runs before the next one fires.
 */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
}
