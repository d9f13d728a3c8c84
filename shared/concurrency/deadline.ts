import { type Clock, systemClock, type Timer } from '../clock/index.ts';

/** How long work may take. */
interface Deadline {
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Ends the work sooner. */
  readonly signal?: AbortSignal | undefined;
  /** What the error of work that takes longer says. @default `took more than <timeoutMs> ms` */
  readonly lateMessage?: string;
}

/** Settles as `work` does, or rejects with the signal's reason when that comes first. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

/**
 * Runs `work` with a signal that aborts when its time is over or the given signal aborts. Settles as `work` does, or rejects
 * at that moment, also where `work` does not heed its signal. Work is not begun for a signal that has aborted.
 */
export function withDeadline<T>(deadline: Deadline, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { timeoutMs, lateMessage = `took more than ${timeoutMs} ms` } = deadline;
  return limited(deadline, () => new Error(lateMessage), work);
}

/** As `withDeadline`, but to be late is no failure: true when `work` came to its end, false when time ran out. */
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
  // Not `AbortSignal.any`: a signal that lives as long as the process would remember every one that was made of it.
  signal?.addEventListener('abort', onAbort, { once: true });
  const timer = clock.after(timeoutMs, () => aborter.abort(late()));
  try {
    return await untilAborted(work(aborter.signal), aborter.signal);
  } finally {
    timer.cancel();
    signal?.removeEventListener('abort', onAbort);
  }
}

/** Between two times that one who waits is told. */
const TELL_EVERY_MS = 5000;

/**
 * Settles as `work` does. While that takes long, `tell` is called now and then with the whole seconds gone by, so that whoever
 * watches knows what is waited for.
 *
 * @param firstMs how long nothing is said: most waits are short
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
 * Calls `late` after `ms`, when what arrived by then is read. Timers go off before sockets are read: where this process stood still
 * meanwhile, an answer that has come would lose to the deadline.
 */
export function afterSocketsAreRead(clock: Pick<Clock, 'after'>, ms: number, late: () => void): Timer {
  let timer = clock.after(ms, () => {
    timer = clock.after(0, late);
  });
  return { cancel: () => timer.cancel() };
}
