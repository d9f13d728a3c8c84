import { setMaxListeners } from 'node:events';

/**
 * Runs `work` with a signal that aborts as soon as one of `signals` does, and settles as `work` does. It takes its
 * listeners off when the work ends: a signal that lives as long as the process would remember every signal that
 * `AbortSignal.any` makes from it.
 */
export async function withEither<T>(
  signals: readonly AbortSignal[],
  work: (either: AbortSignal) => Promise<T>,
): Promise<T> {
  const aborter = new AbortController();
  setMaxListeners(0, aborter.signal, ...signals); // many calls may be under way at once
  const listening = signals.map((signal) => ({ signal, abort: () => aborter.abort(signal.reason) }));
  for (const { signal, abort } of listening) {
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  }
  try {
    return await work(aborter.signal);
  } finally {
    for (const { signal, abort } of listening) signal.removeEventListener('abort', abort);
  }
}
