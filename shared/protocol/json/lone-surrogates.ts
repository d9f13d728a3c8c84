import { BACKSLASH } from './json-characters.ts';

/** Bytes that are scanned before the event loop gets a turn. */
const SLICE_BYTES = 512 * 1024;
/** Bytes of `\uXXXX`. */
const ESCAPE_BYTES = 6;
const LETTER_U = 0x75;
/** Escape of the character that stands for unreadable text. */
const REPLACEMENT = '\\ufffd';

/**
 * Returns a copy of a JSON text in which U+FFFD takes the place of each escape of half a surrogate pair. Programs in
 * JavaScript write such escapes if they cut a text inside an emoji, and then send them with every later turn.
 * Takes one pass, in steps.
 * @param text valid JSON, in which only escapes have a backslash
 */
export function* replaceLoneSurrogates(text: Buffer): Generator<void, Buffer> {
  const whole = Buffer.from(text);
  let highAt = -1;
  let sliceEnd = SLICE_BYTES;
  for (let at = whole.indexOf(BACKSLASH); at >= 0; ) {
    if (at >= sliceEnd) {
      sliceEnd = at + SLICE_BYTES;
      yield;
    }
    const half = halfAt(whole, at);
    const isPair = half === 'low' && highAt >= 0 && highAt === at - ESCAPE_BYTES;
    if (highAt >= 0 && !isPair) whole.write(REPLACEMENT, highAt, 'latin1');
    if (half === 'low' && !isPair) whole.write(REPLACEMENT, at, 'latin1');
    highAt = half === 'high' ? at : -1;
    at = whole.indexOf(BACKSLASH, at + (whole[at + 1] === LETTER_U ? ESCAPE_BYTES : 2));
  }
  if (highAt >= 0) whole.write(REPLACEMENT, highAt, 'latin1');
  return whole;
}

/** Returns which half of a pair the escape at `at` stands for. */
function halfAt(text: Buffer, at: number): 'high' | 'low' | undefined {
  if (text[at + 1] !== LETTER_U) return undefined;
  const code = Number.parseInt(text.toString('latin1', at + 2, at + ESCAPE_BYTES), 16);
  if (code < 0xd800 || code > 0xdfff) return undefined;
  return code < 0xdc00 ? 'high' : 'low';
}
