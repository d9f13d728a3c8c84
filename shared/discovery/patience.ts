import type { Clock } from '../clock/index.ts';

/** Settles as `work` does, or rejects with the signal's reason when that comes first. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    const forget = (): void => signal.removeEventListener('abort', stop);
    work.then(resolve, reject).finally(forget);
  });
}

/**
 * Runs `work` for `timeoutMs` at most; its signal aborts when that time is over or `signal` aborts. True when it came to its
 * end, false when time ran out. Rejects as `work` does, or with the reason of `signal`.
 */
export async function forAtMost(
  { clock, timeoutMs, signal }: { readonly clock: Clock; readonly timeoutMs: number; readonly signal: AbortSignal },
  work: (patience: AbortSignal) => Promise<void>,
): Promise<boolean> {
  signal.throwIfAborted();
  const patience = new AbortController();
  const stop = (): void => patience.abort(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  const timer = clock.after(timeoutMs, () => patience.abort());
  try {
    await untilAborted(work(patience.signal), patience.signal);
    return true;
  } catch (error) {
    signal.throwIfAborted();
    if (!patience.signal.aborted) throw error;
    return false;
  } finally {
    timer.cancel();
    signal.removeEventListener('abort', stop);
  }
}
