/** Ends a `switch` over a union: does not compile while a case is missing, throws if one slips in at run time. */
export function assertNever(value: never): never {
  throw new Error(`unexpected value: ${JSON.stringify(value)}`);
}
