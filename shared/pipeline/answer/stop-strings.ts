/**
 * Ends text at the first stop string, across any chunking, and never shows a part of a hidden one (ruling 13,
 * http-api.md, section 14.2).
 *
 *     hidden:   text so far  ──emitted──┤├── held: longest suffix that may still become a stop string
 *     visible:  text so far  ──emitted (all of it)──┤   only a tail is remembered, to find matches across chunks
 */
export class StopStrings {
  readonly #stops: readonly string[];
  readonly #isVisible: boolean;
  readonly #lengthMax: number;
  #tail = '';
  #matched: string | undefined;

  /** @param isVisible the stop string is part of the output (`include_stop_str_in_output`) */
  constructor(stops: readonly string[], isVisible: boolean) {
    this.#stops = stops;
    this.#isVisible = isVisible;
    this.#lengthMax = stops.reduce((longest, stop) => Math.max(longest, stop.length), 0);
  }

  /** The stop string that ended the text, once one did. */
  get matched(): string | undefined {
    return this.#matched;
  }

  /** Takes the next piece of text and returns what may be shown. After a match everything else is swallowed. */
  push(text: string): string {
    if (this.#matched !== undefined || text === '') return '';
    const seen = this.#tail + text;
    const at = this.#find(seen);
    if (at >= 0) return this.#isVisible ? seen.slice(this.#tail.length, at + this.#matchedLength()) : seen.slice(0, at);
    if (this.#isVisible) {
      this.#tail = seen.slice(Math.max(0, seen.length - this.#lengthMax + 1));
      return text;
    }
    const heldFrom = this.#heldFrom(seen);
    this.#tail = seen.slice(heldFrom);
    return seen.slice(0, heldFrom);
  }

  /** Releases what was held: the text ended for another reason. */
  flush(): string {
    const held = this.#isVisible || this.#matched !== undefined ? '' : this.#tail;
    this.#tail = '';
    return held;
  }

  /** Start of the earliest match, the first stop string in the list winning a tie; -1 without one. */
  #find(seen: string): number {
    let earliest = -1;
    for (const stop of this.#stops) {
      const at = seen.indexOf(stop);
      if (at < 0 || (earliest >= 0 && at >= earliest)) continue;
      earliest = at;
      this.#matched = stop;
    }
    return earliest;
  }

  #matchedLength(): number {
    return this.#matched?.length ?? 0;
  }

  /** Start of the longest suffix of `seen` that is a proper prefix of a stop string. */
  #heldFrom(seen: string): number {
    for (let from = Math.max(0, seen.length - this.#lengthMax + 1); from < seen.length; from++) {
      const suffix = seen.slice(from);
      if (this.#stops.some((stop) => stop.length > suffix.length && stop.startsWith(suffix))) return from;
    }
    return seen.length;
  }
}
