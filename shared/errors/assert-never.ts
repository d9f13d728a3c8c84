/** Ends a `switch` over a union: does not compile while a case is missing, throws if one slips in at run time. */
export function assertNever(value: never): never {
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  throw new Error(`unexpected value: ${text}`);
}
