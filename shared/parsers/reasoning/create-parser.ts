import { isSwitchedOff, type ReasoningFormat, type ReasoningGrammar, type ReasoningRequest } from './formats.ts';
import { type AnswerConstraint, GuidedStart } from './guided-start.ts';
import { HarmonyParser } from './harmony-parser.ts';
import { InklingParser } from './inkling-parser.ts';
import { MarkerParser, withExits } from './marker-parser.ts';
import type { ReasoningParser, ReasoningSink, ReasoningStart } from './parser.ts';

/** How the text of one request is split; the same for all its choices. */
export interface ReasoningPlan {
  readonly format: ReasoningFormat;
  readonly start: ReasoningStart;
  /** Nothing is split; only a leading opener is removed. */
  readonly onlyStripsOpener: boolean;
  /** Markers that end reasoning beside the format's own. */
  readonly exits: readonly string[];
  /** Known where the text may begin with a constrained answer in place of the reasoning that the prompt began. */
  readonly constraint: AnswerConstraint | undefined;
}

/** Longer than any opener or closer with white space around its parts. */
const PROMPT_TAIL_UNITS = 200;

/**
 * Decides how, and whether, a request's text is split. Undefined: all of it is content.
 * @example
 * const plan = planReasoning(format, { templateArgs, lastRole, forcesTool, promptText });
 * const parsers = choices.map(() => plan && createReasoningParser(plan));
 */
export function planReasoning(format: ReasoningFormat, request: ReasoningRequest): ReasoningPlan | undefined {
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

/** A parser for one choice of the request that `plan` was made for. */
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
 * True when the client's text must be decoded with `skip_special_tokens=false` for the format's markers to be seen.
 * @param isSpecial tells of a text whether it is a special token of the model
 */
export function needsSpecialTokens(format: ReasoningFormat, isSpecial: (text: string) => boolean): boolean {
  return format.usesSpecialTokens || format.markers.some(isSpecial);
}

/** Where the model begins. A prompt that does not say is one without reasoning if the request switched that off. */
function startOf(format: ReasoningFormat, request: ReasoningRequest): ReasoningStart {
  const start = startAfter(format, request.promptText);
  const isOff = start === 'as-usual' && startsInside(format.grammar) && isSwitchedOff(request);
  return isOff ? 'outside' : start;
}

/** Where a prompt leaves the model. A prompt that closed the reasoning leaves none to come. */
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

/** `minimax_append_think`: nothing is split; the content gets the opener back that the prompt took from it. */
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

/** For requests without reasoning: everything is content but an opener as the very first characters. */
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
