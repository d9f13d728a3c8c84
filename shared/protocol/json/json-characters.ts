export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
const ZERO = 0x30;
const NINE = 0x39;

/** Number of digits up to which a whole number is written exactly as it was read. */
export const EXACT_DIGITS = 15;

export function isDigit(code: number | undefined): boolean {
  return code !== undefined && code >= ZERO && code <= NINE;
}

/**
 * Returns whether a character outside strings, one of `-.Ee`, shows that a number may be written differently than it
 * was read: a fraction, a minus before a zero, or an exponent. A digit precedes an exponent, unlike the end of `true`
 * or `false`.
 */
export function isInexact(code: number, before: number | undefined, after: number | undefined): boolean {
  if (code === 0x2e) return true;
  return code === 0x2d ? after === ZERO : isDigit(before);
}

/** Length that is scanned byte by byte before native code searches for the end of a string. */
export const SHORT_STRING_BYTES = 64;

/** Returns where the string ends that opens at `opensAt`; -1 when its end is not near. */
export function shortStringEnd(bytes: Buffer, opensAt: number): number {
  const end = Math.min(opensAt + SHORT_STRING_BYTES, bytes.length);
  for (let at = opensAt + 1; at < end; at++) {
    const byte = bytes[at];
    if (byte === BACKSLASH) at++;
    else if (byte === QUOTE) return at;
  }
  return -1;
}

/** Returns how many bytes at the beginning are neither quotes nor backslashes. */
export function plainLength(bytes: Buffer): number {
  const quote = bytes.indexOf(QUOTE);
  const before = quote < 0 ? bytes : bytes.subarray(0, quote);
  const backslash = before.indexOf(BACKSLASH);
  return backslash < 0 ? before.length : backslash;
}
