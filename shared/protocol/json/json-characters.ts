export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
const ZERO = 0x30;
const NINE = 0x39;

/** Whole numbers of so many digits, or fewer, are written as they are read. */
export const EXACT_DIGITS = 15;

export function isDigit(code: number | undefined): boolean {
  return code !== undefined && code >= ZERO && code <= NINE;
}

/**
 * Whether a character outside of strings, which is one of `-.Ee`, shows that a number may be written in another way: a fraction, a
 * minus before a zero, or an exponent, which a digit precedes unlike the end of `true` or `false`.
 */
export function isInexact(code: number, before: number | undefined, after: number | undefined): boolean {
  if (code === 0x2e) return true;
  return code === 0x2d ? after === ZERO : isDigit(before);
}

/** Looked through byte by byte before the search for the end of a string is left to native code. */
export const SHORT_STRING_BYTES = 64;

/** Where the string ends that opens at `opensAt`; -1 when no end is near. */
export function shortStringEnd(bytes: Buffer, opensAt: number): number {
  const end = Math.min(opensAt + SHORT_STRING_BYTES, bytes.length);
  for (let at = opensAt + 1; at < end; at++) {
    const byte = bytes[at];
    if (byte === BACKSLASH) at++;
    else if (byte === QUOTE) return at;
  }
  return -1;
}

/** How many bytes from the first on are neither quotes nor backslashes. */
export function plainLength(bytes: Buffer): number {
  const quote = bytes.indexOf(QUOTE);
  const before = quote < 0 ? bytes : bytes.subarray(0, quote);
  const backslash = before.indexOf(BACKSLASH);
  return backslash < 0 ? before.length : backslash;
}
