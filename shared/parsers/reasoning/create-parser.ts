import type { ReasoningFormat, ReasoningGrammar } from './formats.ts';
import { type AnswerConstraint, GuidedStart } from './guided-start.ts';
import { HarmonyParser } from './harmony-parser.ts';
import { InklingParser } from './inkling-parser.ts';
import { MarkerParser, withExits } from './marker-parser.ts';
import { MuseParser } from './muse-parser.ts';
import type { ReasoningParser, ReasoningSink, ReasoningStart } from './parser.ts';
import { isSwitchedOff, PROMPT_TAIL_UNITS, type ReasoningRequest } from './split-rules.ts';

/** Plan for splitting the text of one request; the same for all its choices. */
export interface ReasoningPlan {
  readonly format: ReasoningFormat;
  readonly start: ReasoningStart;
  /** Whether nothing is split and only a leading opener is removed. */
  readonly onlyStripsOpener: boolean;
  /** Markers that end reasoning, besides the format's own. */
  readonly exits: readonly string[];
  /** Set if the text may begin with a constrained answer instead of the reasoning that the prompt began. */
  readonly constraint: AnswerConstraint | undefined;
}

/**
 * Decides whether and how a request's text is split. Returns undefined if all of it is content.
 * @example
 * const plan = planReasoning(format, { templateArgs, lastRole, forcesTool, promptText });
 * const parsers = choices.map(() => plan && createReasoningParser(plan));
 */
export function planReasoning(named: ReasoningFormat, request: ReasoningRequest): ReasoningPlan | undefined {
  const format = named.forPrompt?.(request.promptText) ?? named;
  const start = startOf(format, request);
  if (request.forcesTool === true && startsInside(format.grammar) && start !== 'inside') return undefined;
  const mode = format.splitRule?.(request) ?? 'split';
  if (mode === 'skip') return undefined;
  const isInside = start === 'inside' || (start === 'as-usual' && startsInside(format.grammar));
  const constraint = request.forcesTool === true ? JSON_ANSWER : request.constraint;
  return {
    format,
    start,
    onlyStripsOpener: mode === 'strip-opener',
    exits: request.callTokens ?? [],
    constraint: isInside ? constraint : undefined,
  };
}

const JSON_ANSWER: AnswerConstraint = { kind: 'json' };

/** Creates the parser of one choice of the request that `plan` was made for. */
export function createReasoningParser({
  format,
  start,
  onlyStripsOpener,
  exits,
  constraint,
}: ReasoningPlan): ReasoningParser {
  const { grammar } = format;
  switch (grammar.kind) {
    case 'harmony':
      return new HarmonyParser(start);
    case 'inkling':
      return new InklingParser(start);
    case 'muse':
      return new MuseParser(start);
    case 'prepend':
      return new OpenerPrepender(grammar.opener);
    case 'markers': {
      if (onlyStripsOpener) return new OpenerStripper(grammar.markers.grammar.openers[0]!); // every grammar has one
      const markers = withExits(grammar.markers, exits);
      const parser = new MarkerParser(markers, start);
      return constraint === undefined ? parser : new GuidedStart(parser, markers.any, constraint);
    }
  }
}

/**
 * Returns true when the client's text must be decoded with `skip_special_tokens=false`, so that the format's markers
 * appear.
 * @param isSpecial returns whether a text is a special token of the model
 */
export function needsSpecialTokens(format: ReasoningFormat, isSpecial: (text: string) => boolean): boolean {
  return format.usesSpecialTokens || format.markers.some(isSpecial);
}

/**
 * Returns where the model begins. If the prompt does not show it and the request switched reasoning off, there is none.
 */
function startOf(format: ReasoningFormat, request: ReasoningRequest): ReasoningStart {
  const start = startAfter(format, request.promptText);
  const isOff = start === 'as-usual' && startsInside(format.grammar) && isSwitchedOff(request);
  return isOff ? 'outside' : start;
}

/** Returns where a prompt leaves the model. After a prompt that closed the reasoning, none follows. */
function startAfter(format: ReasoningFormat, promptText: string): ReasoningStart {
  const tail = promptText.slice(-PROMPT_TAIL_UNITS).replace(/\s+/g, '');
  const endsWith = (marker: string): boolean => tail.endsWith(marker.replace(/\s+/g, ''));
  if (format.promptOpeners.some(endsWith)) return 'inside';
  const { grammar } = format;
  const hasEnded = grammar.kind === 'markers' && grammar.markers.grammar.closers.some(endsWith);
  return hasEnded && startsInside(grammar) ? 'outside' : 'as-usual';
}

function startsInside(grammar: ReasoningGrammar): boolean {
  return grammar.kind === 'markers' && grammar.markers.grammar.startsInside === true;
}

/**
 * Parser of `minimax_append_think`: splits nothing; puts the opener, which stands in the prompt, before the content.
 */
class OpenerPrepender implements ReasoningParser {
  #opener: string;

  constructor(opener: string) {
    this.#opener = opener;
  }

  push(text: string, out: ReasoningSink): void {
    if (text === '') return;
    out.content(this.#opener + text);
    this.#opener = '';
  }

  end(): void {}
}

/** Parser for requests without reasoning: everything is content, except an opener as the very first characters. */
class OpenerStripper implements ReasoningParser {
  #opener: string | undefined;
  #held = '';

  constructor(opener: string) {
    this.#opener = opener;
  }

  push(text: string, out: ReasoningSink): void {
    if (this.#opener === undefined) {
      if (text !== '') out.content(text);
      return;
    }
    const seen = this.#held + text;
    if (seen.length < this.#opener.length && this.#opener.startsWith(seen)) {
      this.#held = seen;
      return;
    }
    const rest = seen.startsWith(this.#opener) ? seen.slice(this.#opener.length) : seen;
    this.#opener = undefined;
    this.#held = '';
    if (rest !== '') out.content(rest);
  }

  end(out: ReasoningSink): void {
    if (this.#held !== '') out.content(this.#held);
    this.#held = '';
  }
}
