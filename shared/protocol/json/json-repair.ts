const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** Bytes that are gone through before others get a turn. */
const SLICE_BYTES = 512 * 1024;
/** A text with more to repair is no text that somebody forgot to escape. */
const REPAIRS_MAX = 100_000;
/** Control bytes before this are not allowed in strings. */
const SPACE = 0x20;
/** `\u00XX` in place of one byte. */
const ESCAPE_BYTES = 6;

/**
 * A copy of a JSON text in which bad UTF-8 is replaced and raw control bytes inside strings are escaped; undefined when there
 * is nothing to repair, or too much. Takes one pass for each, in steps.
 */
export function* repairJson(bytes: Buffer, isValidUtf8: boolean): Generator<void, Buffer | undefined> {
  const text = isValidUtf8 ? bytes : yield* replaceBadUtf8(bytes);
  if (text === undefined) return undefined;
  const controls = yield* findControls(text);
  if (controls === undefined) return undefined;
  if (controls.length === 0) return isValidUtf8 ? undefined : text;
  return escapeAt(text, controls);
}

/** Undefined when the text grows by more than the repairs that are allowed. */
function* replaceBadUtf8(bytes: Buffer): Generator<void, Buffer | undefined> {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const parts: Buffer[] = [];
  let grownBytes = 0;
  for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
    const slice = bytes.subarray(at, at + SLICE_BYTES);
    const isLast = at + SLICE_BYTES >= bytes.length;
    const part = Buffer.from(decoder.decode(slice, { stream: !isLast }));
    grownBytes += part.length - slice.length;
    if (grownBytes > 2 * REPAIRS_MAX) return undefined; // a replacement takes three bytes
    parts.push(part);
    yield;
  }
  return Buffer.concat(parts);
}

/** Where control bytes stand inside of strings; undefined when there are too many. */
function* findControls(text: Buffer): Generator<void, readonly number[] | undefined> {
  const controls: number[] = [];
  let isInString = false;
  let sliceEnd = SLICE_BYTES;
  for (let at = 0; at < text.length; at++) {
    if (at >= sliceEnd) {
      sliceEnd = at + SLICE_BYTES;
      yield;
    }
    const byte = text[at] as number;
    if (byte === QUOTE) isInString = !isInString;
    else if (isInString && byte === BACKSLASH)
      at++; // the next character belongs to the escape
    else if (isInString && byte < SPACE && controls.push(at) > REPAIRS_MAX) return undefined;
  }
  return controls;
}

function escapeAt(text: Buffer, controls: readonly number[]): Buffer {
  const escaped = Buffer.allocUnsafeSlow(text.length + controls.length * (ESCAPE_BYTES - 1));
  let from = 0;
  let to = 0;
  for (const at of controls) {
    to += text.copy(escaped, to, from, at);
    to += escaped.write(`\\u${(text[at] as number).toString(16).padStart(4, '0')}`, to, 'latin1');
    from = at + 1;
  }
  text.copy(escaped, to, from);
  return escaped;
}
