const waiting: (() => void)[] = [];

/**
 * Runs `slice` in a turn of the event loop of its own: long work that is cut into slices of a few milliseconds, of however
 * many owners, holds up everything else for one slice at a time. In the order of the calls.
 */
export function inTurnOfItsOwn(slice: () => void): void {
  if (waiting.push(slice) === 1) setImmediate(runFirst);
}

/** Resolves in such a turn. */
export function turnOfItsOwn(): Promise<void> {
  return new Promise(inTurnOfItsOwn);
}

function runFirst(): void {
  const slice = waiting.shift();
  if (waiting.length > 0) setImmediate(runFirst);
  slice?.();
}
