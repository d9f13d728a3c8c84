/** Approximate characters of a piece: half a millisecond of work. */
const PIECE_CHARS = 64 * 1024;
/** Characters counted for a number, a boolean or null. */
const SCALAR_CHARS = 8;

/**
 * List whose elements are made when they are written, so that those of a large answer are not all made in one turn of
 * the event loop. Items added to `items` later are not in it.
 */
export class LazyList<Item> implements Iterable<unknown> {
  readonly #items: readonly Item[];
  readonly #make: (item: Item) => unknown;
  readonly #length: number;

  constructor(items: readonly Item[], make: (item: Item) => unknown) {
    this.#items = items;
    this.#make = make;
    this.#length = items.length;
  }

  *[Symbol.iterator](): Generator<unknown> {
    for (let at = 0; at < this.#length; at++) yield this.#make(this.#items[at] as Item);
  }

  /** Returns the elements for `JSON.stringify`. */
  toJSON(): unknown[] {
    return [...this];
  }
}

/**
 * Writes the text that `JSON.stringify` would write, in pieces of some 64 Ki characters. Values with a text of their
 * own (`toJSON`), except `LazyList`, are written at once.
 */
export function* jsonPieces(value: unknown): Generator<string> {
  const writer = new JsonWriter();
  yield* writer.value(value);
  yield writer.take();
}

/**
 * Writes an object as `jsonPieces` does.
 * @param more members after its own, each as JSON text with a comma before it
 */
export function* objectPieces(value: object, more: Iterable<string>): Generator<string> {
  const writer = new JsonWriter();
  yield* writer.object(value, more);
  yield writer.take();
}

/** Returns whether the text of `value` has more than about `chars` characters; reads no more of it than that. */
export function isLongJson(value: unknown, chars: number): boolean {
  return charsOf(value, chars) > chars;
}

class JsonWriter {
  #text = '';

  take(): string {
    const text = this.#text;
    this.#text = '';
    return text;
  }

  *object(value: object, more: Iterable<string>): Generator<string> {
    let separator = '{';
    for (const [key, member] of Object.entries(value)) {
      if (member === undefined) continue;
      this.#text += `${separator}${JSON.stringify(key)}:`;
      separator = ',';
      yield* this.value(member);
    }
    for (const text of more) {
      this.#text += text;
      if (this.#isFull) yield this.take();
    }
    this.#text += separator === '{' ? '{}' : '}';
  }

  *value(value: unknown): Generator<string> {
    if (typeof value === 'string') yield* this.#string(value);
    else if (value instanceof LazyList) yield* this.#list(value);
    else if (!isLongJson(value, PIECE_CHARS) || hasOwnText(value)) this.#text += JSON.stringify(value);
    else if (Array.isArray(value)) yield* this.#list(value);
    else yield* this.object(value as object, []); // only a container is that long
    if (this.#isFull) yield this.take();
  }

  /** Writes a list. Short elements are written together: one call for each would take several times as long. */
  *#list(elements: Iterable<unknown>): Generator<string> {
    let separator = '[';
    let run: unknown[] = [];
    let runChars = 0;
    const endRun = (): void => {
      if (run.length === 0) return;
      this.#text += separator + JSON.stringify(run).slice(1, -1);
      separator = ',';
      run = [];
      runChars = 0;
    };
    for (const element of elements) {
      const chars = charsOf(element, PIECE_CHARS);
      if (chars <= PIECE_CHARS) {
        run.push(element);
        runChars += chars;
        if (runChars < PIECE_CHARS) continue;
        endRun();
        yield this.take();
      } else {
        endRun();
        this.#text += separator;
        separator = ',';
        yield* this.value(element);
      }
    }
    endRun();
    this.#text += separator === '[' ? '[]' : ']';
  }

  *#string(value: string): Generator<string> {
    this.#text += '"';
    for (let at = 0; at < value.length; ) {
      let end = Math.min(at + PIECE_CHARS, value.length);
      if (end < value.length && isHighSurrogate(value.charCodeAt(end - 1))) end--; // a pair is not split
      this.#text += JSON.stringify(value.slice(at, end)).slice(1, -1);
      if (this.#isFull) yield this.take();
      at = end;
    }
    this.#text += '"';
  }

  get #isFull(): boolean {
    return this.#text.length >= PIECE_CHARS;
  }
}

/** Estimates the characters in the text of `value`; stops counting above `most`. */
function charsOf(value: unknown, most: number): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return SCALAR_CHARS;
  if (value instanceof LazyList) return Number.POSITIVE_INFINITY;
  let chars = 2;
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length && chars <= most; at++) chars += charsOf(value[at], most - chars);
    return chars;
  }
  for (const key in value) {
    if (chars > most) break;
    chars += key.length + 4 + charsOf((value as Readonly<Record<string, unknown>>)[key], most - chars);
  }
  return chars;
}

function hasOwnText(value: unknown): boolean {
  return typeof (value as { readonly toJSON?: unknown }).toJSON === 'function'; // a value of that length is an object
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}
