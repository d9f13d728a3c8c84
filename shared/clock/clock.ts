/** A pending timer. `cancel` is idempotent. */
export interface Timer {
  cancel(): void;
}

/** Source of time. `nowMs` is monotonic (for durations and deadlines); `wallMs` is Unix time (for records others read). */
export interface Clock {
  /** Monotonic milliseconds, fractional. */
  nowMs(): number;
  /** Unix milliseconds, integer. */
  wallMs(): number;
  /** Runs `callback` once after `delayMs`. The timer does not keep the process alive. */
  after(delayMs: number, callback: () => void): Timer;
  /** Runs `callback` every `periodMs` until cancelled. The timer does not keep the process alive. */
  every(periodMs: number, callback: () => void): Timer;
  /** Resolves after `delayMs`; rejects with the signal's reason when `signal` aborts first. */
  sleep(delayMs: number, signal?: AbortSignal): Promise<void>;
}

/** Longest delay that Node's timers hold; they fire at once for a longer one. */
const DELAY_MS_MAX = 2 ** 31 - 1;

/** The machine's clock. A delay above 24 days is cut to that. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  after(delayMs, callback) {
    const handle = setTimeout(callback, Math.min(delayMs, DELAY_MS_MAX)).unref();
    return { cancel: () => clearTimeout(handle) };
  },
  every(periodMs, callback) {
    const handle = setInterval(callback, Math.min(periodMs, DELAY_MS_MAX)).unref();
    return { cancel: () => clearInterval(handle) };
  },
  sleep(delayMs, signal) {
    return sleepOn(systemClock, delayMs, signal);
  },
};

/** `Clock.sleep` in terms of `Clock.after`, shared by every clock. */
function sleepOn(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const timer = clock.after(delayMs, () => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    });
    function onAbort(): void {
      timer.cancel();
      reject(signal?.reason);
    }
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

interface Scheduled {
  readonly dueMs: number;
  readonly order: number; // timers due at the same instant fire in the order they were armed
  readonly periodMs: number | undefined;
  readonly callback: () => void;
}

/** As the machine's timers: a shorter period would never let `advance` reach its end. */
const PERIOD_MS_MIN = 1;

/** A clock that moves only when told to. Timers fire in due order while it advances. */
export class VirtualClock implements Clock {
  #nowMs = 0;
  #order = 0;
  readonly #epochMs: number;
  readonly #timers = new Set<Scheduled>();
  readonly #handles = new WeakMap<Scheduled, { replace(next: Scheduled): void }>();

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

  /** Timers waiting to fire; a test asserts 0 to prove that nothing was left armed. */
  get pendingTimers(): number {
    return this.#timers.size;
  }

  /** Moves time forward by `ms`, firing every timer that falls due, and lets promise callbacks run between them. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    await settle();
    for (let next = this.#nextDue(untilMs); next !== undefined; next = this.#nextDue(untilMs)) {
      this.#timers.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      if (next.periodMs !== undefined) this.#rearm(next, next.periodMs);
      next.callback();
      await settle();
    }
    this.#nowMs = untilMs;
  }

  #arm(delayMs: number, periodMs: number | undefined, callback: () => void): Timer {
    let current: Scheduled = { dueMs: this.#nowMs + Math.max(0, delayMs), order: this.#order++, periodMs, callback };
    const handle: Timer & { replace(next: Scheduled): void } = {
      cancel: () => void this.#timers.delete(current),
      replace: (next) => {
        current = next;
      },
    };
    this.#timers.add(current);
    this.#handles.set(current, handle);
    return handle;
  }

  #rearm(fired: Scheduled, periodMs: number): void {
    const next: Scheduled = { ...fired, dueMs: fired.dueMs + periodMs, order: this.#order++ };
    const handle = this.#handles.get(fired);
    handle?.replace(next);
    if (handle !== undefined) this.#handles.set(next, handle);
    this.#timers.add(next);
  }

  #nextDue(untilMs: number): Scheduled | undefined {
    let first: Scheduled | undefined;
    for (const timer of this.#timers) {
      if (timer.dueMs > untilMs) continue;
      if (
        first === undefined ||
        timer.dueMs < first.dueMs ||
        (timer.dueMs === first.dueMs && timer.order < first.order)
      ) {
        first = timer;
      }
    }
    return first;
  }
}

/** Gives pending promise callbacks a few turns, so that code awaiting a fired timer runs before the next one fires. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
}
