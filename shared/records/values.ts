/** A record of which nobody has looked at a field yet. */
export type UnknownRecord = Readonly<Record<string, unknown>>;

const DECIMAL = /^\d{1,20}$/;
const U64_MAX = (1n << 64n) - 1n;

/** Whether `value` is a record: an object, neither null nor a list. */
export function isRecord(value: unknown): value is UnknownRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** `value` as a record, undefined when it is something else. */
export function asRecord(value: unknown): UnknownRecord | undefined {
  return isRecord(value) ? value : undefined;
}

/**
 * A whole number from 0 to `max`, undefined for everything else. Some codecs read a long integer as a bigint: that counts
 * while a number holds it exactly.
 *
 * @param max at most, and by default, 2^53 - 1
 */
export function asWholeNumber(value: unknown, max: number = Number.MAX_SAFE_INTEGER): number | undefined {
  const number = typeof value === 'bigint' ? Number(value) : value;
  return Number.isSafeInteger(number) && (number as number) >= 0 && (number as number) <= max
    ? (number as number)
    : undefined;
}

/**
 * A u64: decimal text as our own writers have it, a bigint, or a number that is exact. Undefined for everything else, a
 * number that some codec may have rounded included.
 */
export function asU64(value: unknown): bigint | undefined {
  const exact = typeof value === 'string' && DECIMAL.test(value) ? BigInt(value) : value;
  if (typeof exact === 'bigint') return exact >= 0n && exact <= U64_MAX ? exact : undefined;
  return typeof exact === 'number' && Number.isSafeInteger(exact) && exact >= 0 ? BigInt(exact) : undefined;
}

/** An instance id (hex, as we know it) as the u64 that records carry: decimal text of it in those that pass a codec. */
export function u64OfHex(hexId: string): bigint {
  return BigInt(`0x${hexId}`);
}
