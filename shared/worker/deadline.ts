import type { Clock } from '../clock/index.ts';

/** Waits for `work` for at most `limitMs`. True when it was done by then; a failure of `work` is thrown. */
export async function within(clock: Clock, limitMs: number, work: Promise<unknown>): Promise<boolean> {
  let timer: { cancel(): void } | undefined;
  const limit = new Promise<boolean>((resolve) => {
    timer = clock.after(limitMs, () => resolve(false));
  });
  try {
    return await Promise.race([work.then(() => true), limit]);
  } finally {
    timer?.cancel();
  }
}

/** Runs `work` with a signal that aborts after `limitMs` or with `outer`. */
export async function withDeadline<T>(
  clock: Clock,
  limitMs: number,
  what: string,
  work: (signal: AbortSignal) => Promise<T>,
  outer?: AbortSignal,
): Promise<T> {
  const aborter = new AbortController();
  const timer = clock.after(limitMs, () => aborter.abort(new Error(`${what} took more than ${limitMs} ms`)));
  const signal = outer === undefined ? aborter.signal : AbortSignal.any([aborter.signal, outer]);
  try {
    return await Promise.race([work(signal), rejection(signal)]);
  } finally {
    timer.cancel();
  }
}

/** For work that does not heed its signal. */
function rejection(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
