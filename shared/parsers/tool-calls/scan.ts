import { type Finder, Markers } from '../markers.ts';
import type { CallWriter } from './call-writer.ts';

/** Returns the next character without reading it; empty at the end of the text. */
export function* peek(source: TextSource): Parsing<string> {
  while (source.isEmpty) {
    if (source.isEnded) return '';
    yield;
  }
  return source.text[source.at] as string; // not empty
}

/** Reads white space and returns the character after it, unread; empty at the end of the text. */
export function* skipSpace(source: TextSource): Parsing<string> {
  for (;;) {
    passOverSpace(source);
    if (!source.isEmpty) return source.text[source.at] as string;
    if (source.isEnded) return '';
    yield;
  }
}

/** Reads white space and any of `characters`. */
export function* passOver(source: TextSource, characters: string): Parsing {
  for (;;) {
    const next = yield* skipSpace(source);
    if (next === '' || !characters.includes(next)) return;
    source.at++;
  }
}

/** Reads whichever of `options` stands here, if any does. No option may begin another. */
export function* readOneOf(source: TextSource, options: readonly string[]): Parsing<string | undefined> {
  for (;;) {
    const { text, at } = source;
    let isOpen = false;
    for (const option of options) {
      if (text.startsWith(option, at)) {
        source.at += option.length;
        return option;
      }
      if (text.length - at < option.length && option.startsWith(text.slice(at))) isOpen = true;
    }
    if (!isOpen || source.isEnded) return undefined;
    yield;
  }
}

/** Reads the longest marker that stands here, if one does. */
export function* readMarker(source: TextSource, markers: Markers): Parsing<string | undefined> {
  for (;;) {
    const { text, at } = source;
    const marker = markers.match(text, at, source.isEnded);
    if (marker !== undefined) source.at += marker.length;
    if (marker !== undefined || !markers.isAt(text, at, source.isEnded)) return marker;
    yield;
  }
}

/** Does as `readOneOf`, after white space; reads nothing at all when none of the options follows. */
export function* readOneOfBehindSpace(source: TextSource, options: readonly string[]): Parsing<string | undefined> {
  let space = '';
  for (;;) {
    const from = source.at;
    passOverSpace(source);
    space += source.text.slice(from, source.at);
    if (!source.isEmpty || source.isEnded) break;
    yield;
  }
  const option = yield* readOneOf(source, options);
  if (option === undefined) source.unread(space);
  return option;
}

/**
 * Reads up to a marker and the marker itself, which it returns; passes on the text before it. Returns undefined at the
 * end. A tail that may have become a marker is dropped as markup, unless `isProse`.
 */
export function* readUntil(
  source: TextSource,
  markers: Finder,
  take?: (piece: string) => void,
  isProse = false,
): Parsing<string | undefined> {
  let marker: string | undefined;
  const advance = (): boolean => {
    const { text, at } = source;
    const found = markers.find(text, at, source.isEnded && isProse);
    source.at = found;
    if (found > at) take?.(text.slice(at, found));
    marker = found < text.length ? markers.match(text, found, source.isEnded) : undefined;
    if (marker !== undefined) source.at = found + marker.length;
    else if (source.isEnded) source.at = text.length;
    return marker !== undefined || source.isEnded;
  };
  if (!advance()) yield advance;
  return marker;
}

/** Length limit of a name or id, above that of any name that can be declared. */
export const NAME_UNITS_MAX = 256;

/**
 * Collects the characters that stand here and match `unit`, which tests one UTF-16 unit. The result is a name if it has
 * at most `NAME_UNITS_MAX`; of a longer run one unit more than that is read.
 */
export function* collectName(source: TextSource, unit: RegExp): Parsing<string> {
  let name = '';
  while (name.length <= NAME_UNITS_MAX) {
    const next = yield* peek(source);
    if (!unit.test(next)) break;
    name += next;
    source.at++;
  }
  return name;
}

/**
 * Does as `readUntil` where markup is expected: text that stands there instead is shown. White space is shown only
 * before other text. The recorded text goes out before it, because it was text too.
 */
export function* showUntil(source: TextSource, markers: Finder, calls: CallWriter): Parsing<string | undefined> {
  let space = '';
  let isText = false;
  const marker = yield* readUntil(source, markers, (piece) => {
    if (!isText && piece.trim() === '') {
      space += piece;
      return;
    }
    isText = true;
    calls.content(source.isRecording ? source.takeRecord() : space + piece);
    space = '';
  });
  if (!source.isRecording) calls.lead += space;
  return marker;
}

/** Returns the text before a marker; the marker is read too. */
export function* collectUntil(
  source: TextSource,
  markers: Finder,
): Parsing<{ readonly text: string; readonly marker: string | undefined }> {
  let text = '';
  const marker = yield* readUntil(source, markers, (piece) => {
    text += piece;
  });
  return { text, marker };
}

function passOverSpace(source: TextSource): void {
  const { text } = source;
  while (source.at < text.length && isSpace(text.charCodeAt(source.at))) source.at++;
}

export function isSpace(code: number): boolean {
  return code === 32 || (code >= 9 && code <= 13) || code === 0xa0;
}

/**
 * Reads on in the text that has arrived. Returns true once the waiting reader can continue, at the end of the text at
 * the latest.
 */
export type Advance = () => boolean;

/**
 * Reader of markup: it runs until the available text is used up, yields, and resumes once there is more text or the
 * text has ended. Because it reads character by character, its result does not depend on how the text was cut.
 *
 * A reader of long text yields an `Advance`, and resumes only once that returns true. Resuming a reader costs a step
 * for each of its callers, and a piece of text that is only passed on need not pay that.
 */
export type Parsing<T = void> = Generator<Advance | undefined, T, undefined>;

/** Text that is not read yet, as one string with a position; while recording, also the text read since the mark. */
export class TextSource {
  text = '';
  at = 0;
  /** Whether no more text will come. */
  isEnded = false;
  #recorded: string | undefined;
  #recordedTo = 0;

  get isEmpty(): boolean {
    return this.at >= this.text.length;
  }

  feed(chunk: string): void {
    if (this.#recorded !== undefined) this.#recorded += this.text.slice(this.#recordedTo, this.at);
    this.#recordedTo = 0;
    this.text = this.at >= this.text.length ? chunk : this.text.slice(this.at) + chunk;
    this.at = 0;
  }

  /** Puts back the text that was read last; while recording, only text since the mark. */
  unread(text: string): void {
    if (this.at - (this.#recorded === undefined ? 0 : this.#recordedTo) >= text.length) {
      this.at -= text.length; // it is still there
      return;
    }
    if (this.#recorded !== undefined) {
      const recorded = this.#recorded + this.text.slice(this.#recordedTo, this.at);
      this.#recorded = recorded.slice(0, recorded.length - text.length);
    }
    this.text = text + this.text.slice(this.at);
    this.at = 0;
    this.#recordedTo = 0;
  }

  /** Whether all of the text was read, apart from white space. */
  get isAtEnd(): boolean {
    return this.isEnded && this.text.slice(this.at).trim() === '';
  }

  get isRecording(): boolean {
    return this.#recorded !== undefined;
  }

  /**
   * Records everything that is read from here on, with `before` in front of it, in case it turns out to be plain text.
   */
  record(before = ''): void {
    this.#recorded = before;
    this.#recordedTo = this.at;
  }

  /** Ends the recording: the recorded text was markup. */
  forget(): void {
    this.#recorded = undefined;
  }

  /** Ends the recording and returns it; empty when none was running. */
  takeRecord(): string {
    if (this.#recorded === undefined) return '';
    const text = this.#recorded + this.text.slice(this.#recordedTo, this.at);
    this.#recorded = undefined;
    return text;
  }
}

export const TAG_END = new Markers(['>']);

/**
 * Returns the name in the inside of a tag, without white space and quotes around it; undefined when it is empty or
 * contains `<`.
 */
export function tagName(inside: string): string | undefined {
  const name = unquote(inside.trim());
  return name === '' || name.includes('<') ? undefined : name;
}

/** Returns the text without one pair of quotes around it. */
export function unquote(text: string): string {
  const quote = text[0];
  return (quote === '"' || quote === "'") && text.length > 1 && text.endsWith(quote) ? text.slice(1, -1) : text;
}
