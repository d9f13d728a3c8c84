/** A pending timer. `cancel` is idempotent. */
export interface Timer {
  cancel(): void;
}

/**
 * Source of time. `nowMs` is monotonic, for durations and deadlines; `wallMs` is Unix time, for records that others
 * read.
 */
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

/** Longest delay that Node's timers take; with a longer one they fire at once. */
const DELAY_MS_MAX = 2 ** 31 - 1;

/** Returns a delay that Node's timers take without a warning on stderr, also for a time that has passed. */
function timerMs(delayMs: number): number {
  return Math.max(0, Math.min(delayMs, DELAY_MS_MAX));
}

/** The machine's clock. It cuts a delay above 24 days to 24 days. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  after(delayMs, callback) {
    const handle = setTimeout(callback, timerMs(delayMs)).unref();
    return { cancel: () => clearTimeout(handle) };
  },
  every(periodMs, callback) {
    const handle = setInterval(callback, timerMs(periodMs)).unref();
    return { cancel: () => clearInterval(handle) };
  },
  sleep(delayMs, signal) {
    return sleepOn(systemClock, delayMs, signal);
  },
};

/** Implements `Clock.sleep` with `Clock.after`, for every clock. */
export function sleepOn(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
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
