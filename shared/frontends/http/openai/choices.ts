import { type FinishReason, LazyList, type NamedLogprob, type TokenLogprob } from '../../../protocol/index.ts';
import { isRecord, type UnknownRecord } from '../../../records/index.ts';
import type { Inference } from '../serve-inference.ts';
import type { WireNames } from '../sinks/response-names.ts';
import { withFirstChoice } from './wire.ts';

/** A tool call of a whole answer as it grows. */
export interface SaidCall {
  readonly id: string;
  readonly name: string;
  arguments: string;
}

/** A choice of a whole answer as it grows. */
export interface SaidChoice {
  text: string;
  reasoning: string;
  readonly tools: SaidCall[];
  readonly logprobs: TokenLogprob[];
  finish: FinishReason | null;
}

type Body = Record<string, unknown>;

/** Text that grows from chunk to chunk; everything else in a delta or a choice is replaced by its last value. */
const GROWING: ReadonlySet<string> = new Set([
  'content',
  'text',
  'reasoning_content',
  'reasoning',
  'refusal',
  'arguments',
]);

/** What an answer says of itself, and the last word about its choices. */
interface WholeDialect {
  /** `object` of the answer. */
  readonly object: 'chat.completion' | 'text_completion';
  wholeChoice(choice: UnknownRecord, inference: Inference): UnknownRecord;
}

/**
 * Collects the chunks of a worker that took the body untouched into one object. A worker that sends a whole object instead is
 * passed through.
 */
export class BodyCollector {
  readonly #dialect: WholeDialect;
  #collected: Body = {};
  readonly #choices: Body[] = [];

  constructor(dialect: WholeDialect) {
    this.#dialect = dialect;
  }

  /** Nothing was added yet. */
  get isEmpty(): boolean {
    return this.#choices.length === 0 && Object.keys(this.#collected).length === 0;
  }

  /** @param firstChoice where the first choice of the chunk stands in the answer. @default 0 */
  add(part: unknown, firstChoice = 0): void {
    const chunk = withFirstChoice(part, firstChoice);
    if (!isRecord(chunk)) return;
    const { choices, ...rest } = chunk;
    for (const [key, value] of Object.entries(rest)) if (value !== null) this.#collected[key] = value;
    if (!Array.isArray(choices)) return;
    for (const choice of choices) if (isRecord(choice)) this.#addChoice(choice);
  }

  /** The object of all that was added. */
  whole({ id, created, model }: WireNames, usage: object, inference: Inference): object {
    const sorted = this.#choices.sort((a, b) => Number(a.index) - Number(b.index));
    const { object } = this.#dialect;
    const { reasoningField } = inference.deps.settings;
    const whole = object === 'chat.completion' ? sorted.map((choice) => withEveryKey(choice, reasoningField)) : sorted;
    const choices = whole.map((choice) => this.#dialect.wholeChoice(choice, inference));
    return { ...this.#collected, id, object, created, model, choices, usage };
  }

  #addChoice(choice: Body): void {
    const index = typeof choice.index === 'number' ? choice.index : 0;
    let target = this.#choices.find((known) => known.index === index);
    if (target === undefined) {
      target = { index };
      this.#choices.push(target);
    }
    const { delta, ...rest } = choice;
    merge(target, rest);
    if (!isRecord(delta)) return;
    if (!isRecord(target.message)) target.message = { role: 'assistant', content: null };
    merge(target.message as Body, delta);
  }
}

/** A choice of a chat has these keys whether or not the worker had anything to say under them. */
function withEveryKey({ message, ...rest }: Body, reasoningField: string): Body {
  const { reasoning_content: reasoning, content, ...said } = isRecord(message) ? message : {};
  return {
    finish_reason: null,
    logprobs: null,
    ...rest,
    message: {
      role: 'assistant',
      content: content === undefined || content === '' ? null : content,
      refusal: null,
      ...(reasoning === undefined ? {} : { [reasoningField]: reasoning }),
      ...said,
    },
  };
}

/** Adds `from` to `into`: text grows, lists of tool calls merge by index, other values replace. */
function merge(into: Body, from: Body): void {
  for (const [key, value] of Object.entries(from)) {
    const known = into[key];
    if (value === null || value === undefined) {
      if (known === undefined) into[key] = null;
    } else if (key === 'tool_calls' && Array.isArray(value)) {
      into[key] = mergeToolCalls(Array.isArray(known) ? known : [], value);
    } else if (GROWING.has(key) && typeof known === 'string' && typeof value === 'string') {
      into[key] = known + value;
    } else if (key === 'content' && known !== null && Array.isArray(known) !== Array.isArray(value)) {
      into[key] = [...partsOf(known), ...partsOf(value)];
    } else if (isRecord(known) && isRecord(value)) {
      merge(known, value);
    } else if (Array.isArray(known) && Array.isArray(value)) {
      for (const one of value) known.push(one); // log probabilities, and lists of the worker's own
    } else {
      into[key] = value;
    }
  }
}

/** Content in parts, where some of it came as plain text. */
function partsOf(content: unknown): readonly unknown[] {
  if (Array.isArray(content)) return content;
  return typeof content === 'string' && content !== '' ? [{ type: 'text', text: content }] : [];
}

function mergeToolCalls(known: unknown[], parts: readonly unknown[]): unknown[] {
  for (const part of parts) {
    if (!isRecord(part)) continue;
    const { index, ...rest } = part;
    const at = typeof index === 'number' ? index : known.length;
    const target = known[at];
    if (isRecord(target)) merge(target, rest);
    else known[at] = rest;
  }
  return known;
}

/** One entry of `choices[].logprobs.content` of chats. */
function chatLogprob(token: TokenLogprob): object {
  return {
    token: token.token,
    logprob: token.logprob,
    token_id: token.tokenId,
    bytes: token.bytes,
    top_logprobs: token.top.map(alternative),
  };
}

function alternative({ token, logprob, bytes }: NamedLogprob): object {
  return { token, logprob, bytes };
}

/** `choices[].logprobs` of a chat; null when there are none. */
export function chatLogprobs(tokens: readonly TokenLogprob[]): object | null {
  return tokens.length === 0 ? null : { content: tokens.map(chatLogprob), refusal: null };
}

/** As `chatLogprobs`, of a whole answer. */
export function wholeChatLogprobs(tokens: readonly TokenLogprob[]): object | null {
  return tokens.length === 0 ? null : { content: new LazyList(tokens, chatLogprob), refusal: null };
}

/** `choices[].logprobs` of completions; offsets stay empty. */
interface CompletionLogprobs {
  readonly tokens: string[];
  readonly token_logprobs: number[];
  readonly top_logprobs: Readonly<Record<string, number>>[];
  readonly text_offset: number[];
}

/**
 * Alternatives by their text; the sampled token stands among them under the text that the answer has. Of several tokens with
 * one text (parts of characters all read U+FFFD) the likeliest stays, but the sampled one keeps its own value.
 */
function byText({ top, token, logprob }: TokenLogprob): Record<string, number> {
  const alternatives = new Map<string, number>();
  for (const other of top) {
    alternatives.set(other.token, Math.max(other.logprob, alternatives.get(other.token) ?? Number.NEGATIVE_INFINITY));
  }
  return Object.fromEntries(alternatives.set(token, logprob));
}

export function completionLogprobs(tokens: readonly TokenLogprob[]): CompletionLogprobs {
  return {
    tokens: tokens.map(textOf),
    token_logprobs: tokens.map(logprobOf),
    top_logprobs: tokens.filter(hasAlternatives).map(byText),
    text_offset: [],
  };
}

/** As `completionLogprobs`, of a whole answer. */
export function wholeCompletionLogprobs(tokens: readonly TokenLogprob[]): object {
  const withAlternatives = tokens.filter(hasAlternatives);
  return {
    tokens: new LazyList(tokens, textOf),
    token_logprobs: new LazyList(tokens, logprobOf),
    top_logprobs: new LazyList(withAlternatives, byText),
    text_offset: [],
  };
}

const textOf = ({ token }: TokenLogprob): string => token;
const logprobOf = ({ logprob }: TokenLogprob): number => logprob;
const hasAlternatives = ({ top }: TokenLogprob): boolean => top.length > 0;
