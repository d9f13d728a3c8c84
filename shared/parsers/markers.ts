/** Finds where markup begins. */
export interface Finder {
  /**
   * Returns the position of the first marker. Unless the text is complete, a tail that may become a marker counts too.
   * Returns the text's length if there is none.
   */
  find(text: string, from: number, isComplete: boolean): number;
  /**
   * Returns the longest marker that stands complete at a position.
   * @param isComplete whether no more text follows that could make it a longer one. @default true
   */
  match(text: string, at: number, isComplete?: boolean): string | undefined;
}

/** Marks a place at the end of the text that may become a marker. */
const OPEN = Symbol('open');

/** Markers that begin with the same characters. A branch is created when a text first reaches it. */
class MarkerTree {
  /** Marker that ends here. */
  readonly whole: string | undefined;
  /** Whether no marker continues from here. */
  readonly isLast: boolean;
  readonly #markers: readonly string[];
  readonly #depth: number;
  #branches: Map<number, MarkerTree> | undefined;

  constructor(markers: readonly string[], depth: number) {
    this.#markers = markers;
    this.#depth = depth;
    this.whole = markers.find((marker) => marker.length === depth);
    this.isLast = markers.every((marker) => marker.length === depth);
  }

  /** Returns the markers that continue with a character. */
  branch(code: number): MarkerTree | undefined {
    this.#branches ??= this.#grow();
    return this.#branches.get(code);
  }

  #grow(): Map<number, MarkerTree> {
    const byCode = new Map<number, string[]>();
    for (const marker of this.#markers) {
      if (marker.length === this.#depth) continue;
      const code = marker.charCodeAt(this.#depth);
      const group = byCode.get(code);
      if (group === undefined) byCode.set(code, [marker]);
      else group.push(marker);
    }
    return new Map([...byCode].map(([code, group]) => [code, new MarkerTree(group, this.#depth + 1)]));
  }
}

/**
 * Finds fixed markers in text that arrives in pieces. A marker that the end of the text may have cut off is held back;
 * if one marker begins like another, the longest wins. Text without the first character of any marker costs one
 * `indexOf`. A place where a marker may begin costs the characters that agree with any marker, however many there are:
 * the names of tools are among them.
 *
 *     "so <b and </thi"         markers: <think> </think>
 *         ^ no marker
 *                ^ cut off by the end: held back until more text decides
 */
export class Markers implements Finder {
  readonly #tree: MarkerTree;
  readonly #firstCharacter: string | undefined;
  readonly #firsts: RegExp;

  /** @param markers none of them empty */
  constructor(markers: readonly string[]) {
    this.#tree = new MarkerTree(markers, 0);
    const firsts = [...new Set(markers.map((marker) => marker.charCodeAt(0)))];
    this.#firstCharacter = firsts.length === 1 ? String.fromCharCode(firsts[0]!) : undefined;
    this.#firsts = new RegExp(`[${firsts.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')}]`, 'g');
  }

  find(text: string, from: number, isComplete: boolean): number {
    for (let at = this.#candidate(text, from); at >= 0; at = this.#candidate(text, at + 1)) {
      if (this.isAt(text, at, isComplete)) return at;
    }
    return text.length;
  }

  /** Returns whether a marker begins at a position, complete or, unless the text is complete, cut off by its end. */
  isAt(text: string, at: number, isComplete: boolean): boolean {
    return this.#at(text, at, isComplete) !== undefined;
  }

  match(text: string, at: number, isComplete = true): string | undefined {
    const marker = this.#at(text, at, isComplete);
    return marker === OPEN ? undefined : marker;
  }

  #candidate(text: string, from: number): number {
    if (this.#firstCharacter !== undefined) return text.indexOf(this.#firstCharacter, from);
    this.#firsts.lastIndex = from;
    return this.#firsts.exec(text)?.index ?? -1;
  }

  #at(text: string, from: number, isComplete: boolean): string | typeof OPEN | undefined {
    let whole: string | undefined;
    let tree: MarkerTree | undefined = this.#tree;
    for (let at = from; tree !== undefined; at++) {
      whole = tree.whole ?? whole;
      if (tree.isLast) return whole;
      if (at === text.length) return isComplete ? whole : OPEN;
      tree = tree.branch(text.charCodeAt(at));
    }
    return whole;
  }
}

/**
 * Combines two finders; whichever finds first wins. For one text at a time: each remembers a find that is still ahead.
 */
export function eitherFinder(first: Finder, second: Finder): Finder {
  const finders = [rememberingFinder(first), rememberingFinder(second)] as const;
  return {
    find: (text, from, isComplete) => Math.min(...finders.map((finder) => finder.find(text, from, isComplete))),
    match: (text, at, isComplete) => first.match(text, at, isComplete) ?? second.match(text, at, isComplete),
  };
}

/** Remembers a find, so that text before it is not searched again: the other finder may find many things before it. */
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
    match: (text, at, isComplete) => finder.match(text, at, isComplete),
  };
}
