/**
 * Stops at a state that cannot be: a mistake in the code, after which every answer would be wrong. Costs a comparison, so that
 * it may stand on hot paths, which `node:assert` with its rest arguments may not.
 *
 * @param what what must hold, in words
 */
export function invariant(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(`broken invariant: ${what}`);
}

/** Ends a `switch` over a union: does not compile while a case is missing, throws if one slips in at run time. */
export function assertNever(value: never): never {
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  throw new Error(`unexpected value: ${text}`);
}
