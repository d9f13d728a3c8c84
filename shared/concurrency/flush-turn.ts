/** A sink with bytes waiting for the end of the turn. */
export interface Flushable {
  flush(): void;
}

// One list for all sinks of the process: a worker's frame with tokens of a hundred streams arms one callback, not a hundred.
let pending: Flushable[] = [];
let spare: Flushable[] = [];

/**
 * Flushes `sink` once the I/O events that are ready now have been handled. A sink calls it when it gets its first byte
 * after a flush, so it is in the list at most once.
 */
export function flushAtEndOfTurn(sink: Flushable): void {
  // setImmediate rather than a microtask: it runs after every socket that is readable now, so what several reads brought
  // for one stream leaves in one write.
  if (pending.length === 0) setImmediate(flushPending);
  pending.push(sink);
}

function flushPending(): void {
  const batch = pending;
  pending = spare;
  for (let at = 0; at < batch.length; at++) batch[at]?.flush();
  batch.length = 0;
  spare = batch;
}
