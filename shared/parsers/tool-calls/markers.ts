/** Finds where markup begins. */
export interface Finder {
  /** Position of the first marker or, unless the text is complete, of a tail that may become one; else the text's length. */
  find(text: string, from: number, isComplete: boolean): number;
  /** The marker that stands whole at a position. */
  match(text: string, at: number): string | undefined;
}

/**
 * Fixed marker texts, none of them the beginning of another. One character of a marker at the end of the text is held
 * back. Text without the first character of any marker costs one `indexOf`.
 */
export class Markers implements Finder {
  readonly #markers: readonly string[];
  readonly #firstCharacter: string | undefined;
  readonly #firsts: RegExp;

  constructor(markers: readonly string[]) {
    this.#markers = markers;
    const firsts = [...new Set(markers.map((marker) => marker[0] as string))]; // markers are not empty
    this.#firstCharacter = firsts.length === 1 ? firsts[0] : undefined;
    this.#firsts = new RegExp(
      `[${firsts.map((first) => `\\u{${first.codePointAt(0)?.toString(16)}}`).join('')}]`,
      'gu',
    );
  }

  find(text: string, from: number, isComplete: boolean): number {
    for (let at = this.#candidate(text, from); at >= 0; at = this.#candidate(text, at + 1)) {
      if (this.match(text, at) !== undefined || (!isComplete && this.#mayStand(text, at))) return at;
    }
    return text.length;
  }

  match(text: string, at: number): string | undefined {
    for (const marker of this.#markers) if (text.startsWith(marker, at)) return marker;
    return undefined;
  }

  #candidate(text: string, from: number): number {
    if (this.#firstCharacter !== undefined) return text.indexOf(this.#firstCharacter, from);
    this.#firsts.lastIndex = from;
    return this.#firsts.exec(text)?.index ?? -1;
  }

  #mayStand(text: string, at: number): boolean {
    const length = text.length - at;
    for (const marker of this.#markers) {
      if (length < marker.length && marker.startsWith(text.slice(at))) return true;
    }
    return false;
  }
}

/** Whichever of two comes first. For one text at a time: each remembers where it found something that is still ahead. */
export function eitherFinder(first: Finder, second: Finder): Finder {
  const finders = [rememberingFinder(first), rememberingFinder(second)] as const;
  return {
    find: (text, from, isComplete) => Math.min(...finders.map((finder) => finder.find(text, from, isComplete))),
    match: (text, at) => first.match(text, at) ?? second.match(text, at),
  };
}

/** Does not look again through text up to what it found there: the other of two may find something before it many times. */
function rememberingFinder(finder: Finder): Finder {
  let known = { text: '', from: 0, isComplete: false, found: 0 };
  return {
    find: (text, from, isComplete) => {
      const isKnown = known.text === text && known.isComplete === isComplete;
      if (!isKnown || from < known.from || from > known.found) {
        known = { text, from, isComplete, found: finder.find(text, from, isComplete) };
      }
      return known.found;
    },
    match: (text, at) => finder.match(text, at),
  };
}
