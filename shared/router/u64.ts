const DECIMAL = /^\d{1,20}$/;
const U64_MAX = (1n << 64n) - 1n;

/**
 * A u64 of a message: decimal text as our own writers have it, a bigint, or a number that is exact.
 * Undefined for everything else, a number that some codec may have rounded included.
 */
export function readU64(value: unknown): bigint | undefined {
  const exact = typeof value === 'string' && DECIMAL.test(value) ? BigInt(value) : value;
  if (typeof exact === 'bigint') return exact >= 0n && exact <= U64_MAX ? exact : undefined;
  return typeof exact === 'number' && Number.isSafeInteger(exact) && exact >= 0 ? BigInt(exact) : undefined;
}
