import type { Markers } from '../markers.ts';
import type { ReasoningParser, ReasoningSink } from './parser.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * Kind of a block of text.
 *
 * - `content`, `reasoning`: its text goes there, its markers are dropped.
 * - `header`: a line of markers and names; held until it is known what follows.
 * - `call`: a tool call with JSON in it; content with all its markers.
 */
export type Block = 'content' | 'reasoning' | 'header' | 'call';

/** Length limit of a header: headers are names and markers, and a longer text is not one. */
const HEADER_UNITS_MAX = 1024;
/** First character of all markers of these formats. */
const MARKER_START = '<';

/**
 * Reads text made of typed blocks between markers, the form of `gpt_oss` and `inkling`. The subclass decides what a
 * marker does. This class ensures that results do not depend on how the text is cut, that markers inside JSON strings
 * of a call are text, and that held text is bounded.
 */
export abstract class BlockReader implements ReasoningParser {
  protected block: Block;
  /** Text of the header so far, with its markers. */
  protected header = '';
  readonly #markers: Markers;
  readonly #call = new JsonStrings();
  /** Suffix of the text that may become a marker. */
  #held = '';

  constructor(markers: Markers, block: Block) {
    this.#markers = markers;
    this.block = block;
  }

  push(text: string, out: ReasoningSink): void {
    if (text !== '') this.#read(this.#held === '' ? text : this.#held + text, false, out);
  }

  end(out: ReasoningSink): void {
    if (this.#held !== '') this.#read(this.#held, true, out);
    this.closeHeader(out);
  }

  /** Takes text of the current block, up to the next marker; never empty. */
  protected abstract readText(text: string, out: ReasoningSink): void;
  /** Handles a marker outside JSON strings. Sets `block` to the kind of the next block. */
  protected abstract readMarker(marker: string, out: ReasoningSink): void;
  /** Handles the end of the text inside a header, if `block` is a header. */
  protected abstract closeHeader(out: ReasoningSink): void;

  /** Begins a call whose start, markers included, is `text`. */
  protected beginCall(text: string, out: ReasoningSink): void {
    out.content(text);
    this.#call.reset();
    this.block = 'call';
  }

  /** Adds to the header. A header that grows too long was text, and becomes content. */
  protected growHeader(text: string, out: ReasoningSink): void {
    this.header += text;
    if (this.header.length <= HEADER_UNITS_MAX) return;
    out.content(this.header);
    this.header = '';
    this.block = 'content';
  }

  #read(text: string, isEnd: boolean, out: ReasoningSink): void {
    this.#held = '';
    for (let from = 0; from < text.length; ) {
      const at = this.#nextMarker(text, from, isEnd);
      if (at !== from) this.readText(from === 0 && at === text.length ? text : text.slice(from, at), out);
      if (at === text.length) return;
      const marker = this.#markers.match(text, at, isEnd);
      if (marker === undefined) {
        this.#held = text.slice(at);
        return;
      }
      this.readMarker(marker, out);
      from = at + marker.length;
    }
  }

  /**
   * Returns the position of the next marker, complete or cut off by the end of `text`; without one, the length of
   * `text`.
   */
  #nextMarker(text: string, from: number, isEnd: boolean): number {
    if (this.block !== 'call') return this.#markers.find(text, from, isEnd);
    for (let at = from; ; at++) {
      at = this.#call.readTo(MARKER_START, text, at);
      if (at === text.length || this.#markers.isAt(text, at, isEnd)) return at;
    }
  }
}

/** Follows JSON text piece by piece and tracks which parts are inside a string literal, where markers are text. */
class JsonStrings {
  #isInside = false;
  #isEscaped = false;

  /**
   * Reads `text[from ..)` up to the first `stop` outside a string literal.
   * @returns its position, which is not read, or the length of `text`
   */
  readTo(stop: string, text: string, from: number): number {
    const stopUnit = stop.charCodeAt(0);
    for (let at = from; at < text.length; at++) {
      const unit = text.charCodeAt(at);
      if (this.#isEscaped) this.#isEscaped = false;
      else if (unit === QUOTE) this.#isInside = !this.#isInside;
      else if (!this.#isInside && unit === stopUnit) return at;
      else if (this.#isInside && unit === BACKSLASH) this.#isEscaped = true;
    }
    return text.length;
  }

  /** Starts over for new JSON text. */
  reset(): void {
    this.#isInside = false;
    this.#isEscaped = false;
  }
}
