import { type Clock, systemClock, type Timer } from '../clock/index.ts';

/** Options about how long work may take. */
interface Deadline {
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Signal that ends the work sooner. */
  readonly signal?: AbortSignal | undefined;
  /** Message of the error if the work takes longer. @default `took more than <timeoutMs> ms` */
  readonly lateMessage?: string;
}

/** Settles as `work` does, or rejects with the signal's reason if the signal aborts first. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

/**
 * Runs `work` with a signal that aborts when its time is over or when the given signal aborts. Settles as `work` does,
 * or rejects at that moment, even if `work` ignores its signal. Does not begin work for a signal that has aborted.
 */
export function withDeadline<T>(deadline: Deadline, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { timeoutMs, lateMessage = `took more than ${timeoutMs} ms` } = deadline;
  return limited(deadline, () => new Error(lateMessage), work);
}

/**
 * Works like `withDeadline`, but being late is not a failure: returns true if `work` ended, and false if time ran out.
 */
export async function forAtMost(deadline: Deadline, work: (signal: AbortSignal) => Promise<unknown>): Promise<boolean> {
  const late = new Error('out of time');
  try {
    await limited(deadline, () => late, work);
    return true;
  } catch (thrown) {
    if (thrown === late) return false;
    throw thrown;
  }
}

async function limited<T>(
  { clock, timeoutMs, signal }: Deadline,
  late: () => Error,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const aborter = new AbortController();
  const onAbort = (): void => aborter.abort(signal?.reason);
  // `AbortSignal.any` would not do: a signal that lives as long as the process would remember every signal made from
  // it.
  signal?.addEventListener('abort', onAbort, { once: true });
  const timer = clock.after(timeoutMs, () => aborter.abort(late()));
  try {
    return await untilAborted(work(aborter.signal), aborter.signal);
  } finally {
    timer.cancel();
    signal?.removeEventListener('abort', onAbort);
  }
}

/** Interval between two reports about a wait. */
const TELL_EVERY_MS = 5000;

/**
 * Settles as `work` does. If that takes long, it calls `tell` now and then with the whole seconds gone by, so that a
 * person who watches knows what the process waits for.
 *
 * @param firstMs time before the first report, because most waits are short
 */
export async function tellWhile<T>(
  work: Promise<T>,
  tell: (waitedSecs: number) => void,
  firstMs = 2000,
  clock: Clock = systemClock,
): Promise<T> {
  const startedMs = clock.nowMs();
  const say = (): void => {
    tell(Math.round((clock.nowMs() - startedMs) / 1000));
    timer = clock.after(TELL_EVERY_MS, say);
  };
  let timer = clock.after(firstMs, say);
  try {
    return await work;
  } finally {
    timer.cancel();
  }
}

/**
 * Calls `late` after `ms`, once everything that had arrived by then is read. Timers fire before sockets are read, so
 * without this an answer that has come would lose to the deadline if this process stood still meanwhile.
 */
export function afterSocketsAreRead(clock: Pick<Clock, 'after'>, ms: number, late: () => void): Timer {
  let timer = clock.after(ms, () => {
    timer = clock.after(0, late);
  });
  return { cancel: () => timer.cancel() };
}
