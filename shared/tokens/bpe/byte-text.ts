/** Methods of strings that Node 20 has and the ES2023 types lack. */
interface WellFormedText {
  isWellFormed(): boolean;
  toWellFormed(): string;
}

/**
 * Returns the text of `bytes[start .. end)`. Each broken sequence becomes one U+FFFD, the same count as in other
 * decoders.
 */
export function utf8Text(bytes: Uint8Array, start: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('utf8');
}

/** Returns `text` with every lone surrogate replaced by U+FFFD. */
export function toWellFormed(text: string): string {
  const checked = text as unknown as WellFormedText;
  return checked.isWellFormed() ? text : checked.toWellFormed();
}

/**
 * The 256 printable characters by which byte-level vocabularies spell bytes: a printable Latin-1 byte stands for
 * itself; the 68 others take the characters from U+0100 on, in order.
 */
const CHAR_OF_BYTE = new Uint16Array(256);
/** First code point above the alphabet. */
const ALPHABET_END = 0x144;
const BYTE_OF_CHAR = new Int16Array(ALPHABET_END).fill(-1);

let next = 0x100;
for (let byte = 0; byte < 256; byte++) {
  const isPrintable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xff && byte !== 0xad);
  const char = isPrintable ? byte : next++;
  CHAR_OF_BYTE[byte] = char;
  BYTE_OF_CHAR[char] = byte;
}

/** Returns the byte that `codePoint` spells, or -1 when it is not in the alphabet. */
export function byteOfChar(codePoint: number): number {
  return codePoint < ALPHABET_END ? BYTE_OF_CHAR[codePoint]! : -1;
}

/** Returns `bytes` in the spelling of byte-level vocabularies. */
export function spellBytes(bytes: Uint8Array): string {
  let spelled = '';
  for (const byte of bytes) spelled += String.fromCharCode(CHAR_OF_BYTE[byte]!);
  return spelled;
}

/** Returns the bytes that `spelled` stands for, or undefined when one of its characters is not in the alphabet. */
export function unspellBytes(spelled: string): Uint8Array | undefined {
  const bytes = new Uint8Array(spelled.length);
  for (let at = 0; at < spelled.length; at++) {
    const byte = byteOfChar(spelled.charCodeAt(at));
    if (byte < 0) return undefined;
    bytes[at] = byte;
  }
  return bytes;
}

/**
 * Returns a token's bytes as the byte-level decoder reads them: the bytes it spells, or its UTF-8 when a character is
 * not in the alphabet.
 */
export function tokenTextToBytes(token: string): Uint8Array {
  return unspellBytes(token) ?? new TextEncoder().encode(token);
}
