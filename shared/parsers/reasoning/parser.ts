/** Receives a text split in two, in order and as soon as it is certain. Never called with an empty text. */
export interface ReasoningSink {
  reasoning(text: string): void;
  content(text: string): void;
}

/**
 * Splits the text of one choice into reasoning and content. What the sink gets, joined, does not depend on how the text
 * was cut into pieces, and at any moment it is a prefix of what it will be in the end. One instance a choice.
 */
export interface ReasoningParser {
  /** Takes the next piece of text. */
  push(text: string, out: ReasoningSink): void;
  /** Ends the text: releases what was held back. Nothing may be pushed afterwards. */
  end(out: ReasoningSink): void;
}

/** Where a prompt leaves the model: inside a reasoning span, past its end, or wherever the format begins. */
export type ReasoningStart = 'inside' | 'outside' | 'as-usual';

/**
 * A few literal markers, searched for in text that comes in pieces. A marker may be cut off by the end of the text; where
 * one marker begins like another, the longest wins.
 *
 *     "so <b and </thi"         markers: <think> </think>
 *         ^ no marker
 *                ^ cut off by the end: held back until more text decides
 */
export class MarkerSet {
  readonly #markers: readonly string[];
  readonly #soleStart: string | undefined;
  readonly #starts: RegExp | undefined;

  /** @param markers none of them empty; the set itself may be */
  constructor(markers: readonly string[]) {
    this.#markers = markers.toSorted((a, b) => b.length - a.length);
    const starts = new Set(markers.map((marker) => marker[0]!));
    this.#soleStart = starts.size === 1 ? [...starts][0] : undefined;
    const units = [...starts].map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
    this.#starts = starts.size > 1 ? new RegExp(`[${units.join('')}]`, 'g') : undefined;
  }

  /**
   * Start of the first marker of `text` at or after `from`, whole or cut off by the end; -1 without one.
   * @param isEnd no more text follows, so that nothing is cut off
   */
  find(text: string, from: number, isEnd: boolean): number {
    for (let at = this.#nextStart(text, from); at >= 0; at = this.#nextStart(text, at + 1)) {
      if (this.isAt(text, at, isEnd)) return at;
    }
    return -1;
  }

  /** True when a marker begins at `at`, whole or cut off by the end. */
  isAt(text: string, at: number, isEnd: boolean): boolean {
    return this.#wholeAt(text, at) !== undefined || (!isEnd && this.#isCutOff(text, at));
  }

  /** The marker at a place where there is one; undefined when more text decides which it is. */
  markerAt(text: string, at: number, isEnd: boolean): string | undefined {
    return !isEnd && this.#isCutOff(text, at) ? undefined : this.#wholeAt(text, at);
  }

  #nextStart(text: string, from: number): number {
    if (this.#soleStart !== undefined) return text.indexOf(this.#soleStart, from);
    if (this.#starts === undefined) return -1;
    this.#starts.lastIndex = from;
    return this.#starts.exec(text)?.index ?? -1;
  }

  #wholeAt(text: string, at: number): string | undefined {
    for (const marker of this.#markers) if (text.startsWith(marker, at)) return marker;
    return undefined;
  }

  #isCutOff(text: string, at: number): boolean {
    const left = text.length - at;
    for (const marker of this.#markers) {
      if (marker.length <= left) return false; // longest first
      if (marker.startsWith(left === text.length ? text : text.slice(at))) return true;
    }
    return false;
  }
}
