/** Methods that Node 20 has and the ES2023 types lack. */
interface WellFormedText {
  isWellFormed(): boolean;
  toWellFormed(): string;
}

/** Bytes of the longest start of a character. */
export const UNFINISHED_MAX = 3;

/**
 * Length of the unfinished character at the end of `bytes[0 .. length)`: 0 to 3. What cannot become a character whatever
 * follows is not unfinished; it decodes to U+FFFD.
 */
export function unfinishedLength(bytes: Uint8Array, length: number): number {
  const from = Math.max(0, length - UNFINISHED_MAX);
  for (let at = length - 1; at >= from; at--) {
    const byte = bytes[at]!;
    if ((byte & 0xc0) === 0x80) continue;
    const wanted =
      byte >= 0xf0 && byte <= 0xf4 ? 4 : byte >= 0xe0 && byte < 0xf0 ? 3 : byte >= 0xc2 && byte < 0xe0 ? 2 : 0;
    if (wanted <= length - at) return 0;
    return at + 1 === length || isPossibleSecond(byte, bytes[at + 1]!) ? length - at : 0;
  }
  return 0;
}

/** Some leads allow only part of the continuation bytes: no overlong forms, surrogates or code points past U+10FFFF. */
function isPossibleSecond(lead: number, second: number): boolean {
  switch (lead) {
    case 0xe0:
      return second >= 0xa0;
    case 0xed:
      return second < 0xa0;
    case 0xf0:
      return second >= 0x90;
    case 0xf4:
      return second < 0x90;
    default:
      return true;
  }
}

/** Text of `bytes[start .. end)`, each broken sequence as one U+FFFD (the same count as other decoders give). */
export function utf8Text(bytes: Uint8Array, start: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('utf8');
}

/** `text` with every lone surrogate replaced by U+FFFD. */
export function toWellFormed(text: string): string {
  const checked = text as unknown as WellFormedText;
  return checked.isWellFormed() ? text : checked.toWellFormed();
}
