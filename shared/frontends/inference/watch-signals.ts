import type { ExchangeListener, TrackedExchange } from './deps.ts';

/** Does what `TrackedExchange.watch` does, with the signals of the exchange. */
export function watchSignals(
  { deadline, sink: { closed } }: TrackedExchange,
  { left, late }: ExchangeListener,
): () => void {
  if (deadline?.aborted === true) late();
  else if (closed.aborted) left();
  else {
    deadline?.addEventListener('abort', late, { once: true });
    closed.addEventListener('abort', left, { once: true });
  }
  return () => {
    closed.removeEventListener('abort', left);
    deadline?.removeEventListener('abort', late);
  };
}
