/**
 * Ends text at the first stop string, across any chunking, and never shows a part of a hidden one.
 *
 *     hidden:   text so far  ──emitted──┤├── held: longest suffix that may still become a stop string
 *     visible:  text so far  ──emitted (all of it)──┤
 *
 * An Aho-Corasick automaton over UTF-16 units. Each unit costs a bounded number of steps on average, whatever the stop
 * strings and the text. The number of units to hold is the depth of the automaton's node: the length of the longest
 * suffix that begins a stop string.
 */
export class StopStrings {
  readonly #automaton: Automaton;
  readonly #isVisible: boolean;
  #node = ROOT;
  #held = '';
  #matched: string | undefined;

  /** @param isVisible whether the stop string is part of the output (`include_stop_str_in_output`) */
  constructor(stops: readonly string[], isVisible: boolean) {
    this.#automaton = new Automaton(stops);
    this.#isVisible = isVisible;
  }

  /** The stop string that ended the text; undefined if none has. */
  get matched(): string | undefined {
    return this.#matched;
  }

  /** Takes the next piece of text, and returns the text that may be shown. Returns nothing more after a match. */
  push(text: string): string {
    if (this.#matched !== undefined || text === '') return '';
    const depthBefore = this.#automaton.depthOf(this.#node);
    const match = this.#scan(text);
    if (match !== undefined) {
      this.#matched = match.stop;
      return this.#isVisible ? text.slice(0, match.end) : this.#upTo(text, match.end - match.stop.length, depthBefore);
    }
    if (this.#isVisible) return text;
    const shownTo = text.length - this.#automaton.depthOf(this.#node);
    const shown = this.#upTo(text, shownTo, depthBefore);
    this.#held = shownTo >= 0 ? text.slice(shownTo) : this.#held.slice(depthBefore + shownTo) + text;
    return shown;
  }

  /** Returns the text that was held, because the text has ended for another reason. */
  flush(): string {
    const held = this.#matched === undefined ? this.#held : '';
    this.#held = '';
    return held;
  }

  /** Returns the held text and `text` up to `end`, an index in `text`. A negative `end` lies in the held text. */
  #upTo(text: string, end: number, heldLength: number): string {
    return end >= 0 ? this.#held + text.slice(0, end) : this.#held.slice(0, heldLength + end);
  }

  /**
   * Returns the match in this piece that starts first; of equal ones, the first in the list of stop strings. After a
   * match the scan continues while the node's suffix starts no later, because a longer stop string may start earlier.
   */
  #scan(text: string): Match | undefined {
    let best: Match | undefined;
    let bestStart = 0;
    for (let at = 0; at < text.length; at++) {
      this.#node = this.#automaton.step(this.#node, text.charCodeAt(at));
      const end = at + 1;
      if (best !== undefined && end - this.#automaton.depthOf(this.#node) > bestStart) break;
      const rank = this.#automaton.endsHere(this.#node);
      if (rank === NONE) continue;
      const stop = this.#automaton.stops[rank] as string; // a rank is an index of the list
      const start = end - stop.length;
      if (best !== undefined && (start > bestStart || (start === bestStart && rank > best.rank))) continue;
      best = { stop, rank, end };
      bestStart = start;
    }
    return best;
  }
}

interface Match {
  readonly stop: string;
  /** Index in the list of stop strings. */
  readonly rank: number;
  /** Index in the piece of text after the match. */
  readonly end: number;
}

const ROOT = 0;
const NONE = -1;
const UNITS = 0x1_0000;

/** Trie of the stop strings with failure links. Nodes are numbers. One map holds all edges, keyed by node and unit. */
class Automaton {
  readonly stops: readonly string[];
  readonly #edges = new Map<number, number>();
  readonly #depth: number[] = [0];
  /** Node of the longest proper suffix that is also in the trie. */
  readonly #fail: number[] = [ROOT];
  /** Rank of the longest stop string that ends at a node, the first of equal ones; `NONE` if there is none. */
  readonly #ends: number[] = [NONE];

  constructor(stops: readonly string[]) {
    this.stops = stops;
    for (let rank = 0; rank < stops.length; rank++) this.#add(stops[rank] as string, rank);
    this.#link();
  }

  depthOf(node: number): number {
    return this.#depth[node] as number; // `#add` has made every node
  }

  /** Returns the rank of the longest stop string that ends at this node, or `NONE`. */
  endsHere(node: number): number {
    return this.#ends[node] as number;
  }

  step(from: number, unit: number): number {
    for (let node = from; ; node = this.#fail[node] as number) {
      const next = this.#edges.get(node * UNITS + unit);
      if (next !== undefined) return next;
      if (node === ROOT) return ROOT;
    }
  }

  #add(stop: string, rank: number): void {
    let node = ROOT;
    for (let at = 0; at < stop.length; at++) {
      const key = node * UNITS + stop.charCodeAt(at);
      let next = this.#edges.get(key);
      if (next === undefined) {
        next = this.#depth.length;
        this.#edges.set(key, next);
        this.#depth.push(at + 1);
        this.#fail.push(ROOT);
        this.#ends.push(NONE);
      }
      node = next;
    }
    if (node !== ROOT && this.#ends[node] === NONE) this.#ends[node] = rank;
  }

  /** Sets the failure links in order of depth, because a link leads to a node of lesser depth. */
  #link(): void {
    const edges = [...this.#edges].sort(([, a], [, b]) => this.depthOf(a) - this.depthOf(b));
    for (const [key, node] of edges) {
      const parent = Math.floor(key / UNITS);
      const fail = parent === ROOT ? ROOT : this.step(this.#fail[parent] as number, key % UNITS);
      this.#fail[node] = fail;
      if (this.#ends[node] === NONE) this.#ends[node] = this.#ends[fail] as number;
    }
  }
}
