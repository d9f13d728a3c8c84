import { Markers } from '../markers.ts';
import type { ReasoningParser, ReasoningSink, ReasoningStart } from './parser.ts';

/** Grammar of reasoning between two markers, the form of most models. */
export interface MarkerGrammar {
  readonly openers: readonly string[];
  readonly closers: readonly string[];
  /**
   * Whether the text begins inside reasoning; then an opener as its very first characters is dropped. @default false
   */
  readonly startsInside?: boolean;
  /** Markers of tool calls that also end reasoning; they and the text after them are content. @default none */
  readonly exits?: readonly string[];
  /** Markers around content that are not part of it. @default none */
  readonly framing?: readonly string[];
  /** Text that is removed from the start of each reasoning span. @default none */
  readonly label?: string;
  /** Whether everything after the first span is content, and a closer without an opener is text. @default false */
  readonly isSingleBlock?: boolean;
}

/** Grammar with its markers compiled; all its parsers share it. */
export interface CompiledMarkers {
  readonly grammar: MarkerGrammar;
  /** Markers that matter inside a reasoning span. */
  readonly inside: Markers;
  /** Markers that matter outside a reasoning span. */
  readonly outside: Markers;
  /** Markers that begin or end a reasoning span. */
  readonly any: Markers;
}

export function compileMarkers(grammar: MarkerGrammar): CompiledMarkers {
  const { openers, closers, exits = [], framing = [], isSingleBlock = false } = grammar;
  return {
    grammar,
    inside: new Markers([...closers, ...exits]),
    outside: new Markers([...openers, ...(isSingleBlock ? [] : closers), ...framing]),
    any: new Markers([...openers, ...closers, ...exits]),
  };
}

const WITH_EXITS = new WeakMap<CompiledMarkers, Map<string, CompiledMarkers>>();

/** Returns the grammar with more exits. These come from the table of tool-call formats, so there are few of them. */
export function withExits(compiled: CompiledMarkers, exits: readonly string[]): CompiledMarkers {
  const { grammar } = compiled;
  const all = [...new Set([...(grammar.exits ?? []), ...exits])];
  if (all.length === (grammar.exits?.length ?? 0)) return compiled;
  const known = WITH_EXITS.get(compiled) ?? new Map<string, CompiledMarkers>();
  WITH_EXITS.set(compiled, known);
  const key = all.join('\n');
  const made = known.get(key) ?? compileMarkers({ ...grammar, exits: all });
  known.set(key, made);
  return made;
}

const NO_MARKERS = new Markers([]);

/**
 * State machine of a marker grammar.
 *
 * | State | opener | closer | exit | framing |
 * |---|---|---|---|---|
 * | at start | dropped -> inside | as inside | as inside | as inside |
 * | inside | text | dropped -> outside | -> outside, where it is read again | text |
 * | outside | dropped -> inside | dropped (stray) | text | dropped |
 *
 * "at start" is the first text of a grammar that starts inside. A single block ends in a state without markers.
 */
export class MarkerParser implements ReasoningParser {
  readonly #markers: CompiledMarkers;
  #isInside: boolean;
  #isAtStart: boolean;
  #isDone = false;
  /** Suffix of the text that may become a marker; shorter than the longest marker. */
  #held = '';
  /** Part of the span's label seen so far; undefined once it is known whether there is a label. */
  #label: string | undefined = '';

  constructor(markers: CompiledMarkers, start: ReasoningStart) {
    this.#markers = markers;
    const startsInside = markers.grammar.startsInside === true;
    this.#isInside = start === 'inside' || (start === 'as-usual' && startsInside);
    this.#isAtStart = start === 'as-usual' && startsInside;
  }

  push(text: string, out: ReasoningSink): void {
    if (text !== '') this.#read(this.#held === '' ? text : this.#held + text, false, out);
  }

  end(out: ReasoningSink): void {
    if (this.#held !== '') this.#read(this.#held, true, out);
  }

  #read(text: string, isEnd: boolean, out: ReasoningSink): void {
    let from = 0;
    this.#held = '';
    if (this.#isAtStart) {
      const opener = this.#openerAtStart(text, isEnd);
      if (opener === undefined) {
        this.#held = text;
        return;
      }
      from = opener.length;
      this.#isAtStart = false;
    }
    while (from < text.length) {
      const markers = this.#watched();
      const at = markers.find(text, from, isEnd);
      if (at !== from) this.#emit(text, from, at, out);
      if (at === text.length) return;
      const marker = markers.match(text, at, isEnd);
      if (marker === undefined) {
        this.#held = text.slice(at);
        return;
      }
      from = this.#meet(marker) ? at + marker.length : at;
    }
  }

  #watched(): Markers {
    if (this.#isDone) return NO_MARKERS;
    return this.#isInside ? this.#markers.inside : this.#markers.outside;
  }

  /** Returns the opener that `text` begins with, '' for none, undefined while that is undecided. */
  #openerAtStart(text: string, isEnd: boolean): string | undefined {
    const { openers } = this.#markers.grammar;
    const whole = openers.find((opener) => text.startsWith(opener));
    if (whole !== undefined) return whole;
    return !isEnd && openers.some((opener) => opener.startsWith(text)) ? undefined : '';
  }

  /** Changes the state at a marker. Returns true when the marker is not text. */
  #meet(marker: string): boolean {
    const { openers, closers, isSingleBlock = false } = this.#markers.grammar;
    if (!this.#isInside) {
      if (openers.includes(marker)) {
        this.#isInside = true;
        this.#label = '';
      }
      return true;
    }
    this.#isInside = false;
    this.#isDone = isSingleBlock;
    return closers.includes(marker);
  }

  #emit(text: string, from: number, to: number, out: ReasoningSink): void {
    const part = from === 0 && to === text.length ? text : text.slice(from, to);
    if (!this.#isInside) {
      out.content(part);
      return;
    }
    const shown = this.#label === undefined ? part : this.#withoutLabel(this.#label + part);
    if (shown !== '') out.reasoning(shown);
  }

  /** Removes the label from a span's text. A span that ends inside its label yields nothing. */
  #withoutLabel(text: string): string {
    const label = this.#markers.grammar.label ?? '';
    const isOpen = text.length < label.length && label.startsWith(text);
    this.#label = isOpen ? text : undefined;
    if (isOpen) return '';
    return text.startsWith(label) ? text.slice(label.length) : text;
  }
}
