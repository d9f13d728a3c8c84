/** Finds where markup begins. */
export interface Finder {
  /** Position of the first marker or, unless the text is complete, of a tail that may become one; else the text's length. */
  find(text: string, from: number, isComplete: boolean): number;
  /**
   * The marker that stands whole at a position, the longest of those that do.
   * @param isComplete no more text follows that could make it a longer one. @default true
   */
  match(text: string, at: number, isComplete?: boolean): string | undefined;
}

/** A marker may stand where the text ends, once it goes on. */
const OPEN = Symbol('open');

/** The markers that begin with the same characters. Branches are made when a text first goes along them. */
class MarkerTree {
  /** The marker that ends here. */
  readonly whole: string | undefined;
  /** No marker goes on. */
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

  /** Those that go on with a character. */
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
 * Fixed marker texts in text that comes in pieces: one that the end of the text may have cut off is held back, and where one
 * begins like another, the longest wins. Text without the first character of any marker costs one `indexOf`; a place where
 * one may begin costs the characters that agree with any, however many markers there are: names of tools are among them.
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

  /** Whether one begins at a position, whole or, unless the text is complete, cut off by its end. */
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

/** Whichever of two comes first. For one text at a time: each remembers where it found something that is still ahead. */
export function eitherFinder(first: Finder, second: Finder): Finder {
  const finders = [rememberingFinder(first), rememberingFinder(second)] as const;
  return {
    find: (text, from, isComplete) => Math.min(...finders.map((finder) => finder.find(text, from, isComplete))),
    match: (text, at, isComplete) => first.match(text, at, isComplete) ?? second.match(text, at, isComplete),
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
    match: (text, at, isComplete) => finder.match(text, at, isComplete),
  };
}
