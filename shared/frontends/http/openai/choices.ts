import { type FinishReason, LazyList, type NamedLogprob, type TokenLogprob } from '../../../protocol/index.ts';
import { isRecord, type UnknownRecord } from '../../../records/index.ts';
import type { Inference } from '../serve-inference.ts';
import type { WireNames } from '../sinks/response-names.ts';
import { withFirstChoice } from './worker-chunks.ts';

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

/**
 * Fields whose text grows from chunk to chunk. Every other field of a delta or a choice has the value of its last
 * chunk.
 */
const GROWING: ReadonlySet<string> = new Set([
  'content',
  'text',
  'reasoning_content',
  'reasoning',
  'refusal',
  'arguments',
]);

/** The fields that a whole answer of a dialect starts from, and the last change to its choices. */
interface WholeDialect {
  /** `object` of the answer. */
  readonly object: 'chat.completion' | 'text_completion';
  wholeChoice(choice: UnknownRecord, inference: Inference): UnknownRecord;
}

/**
 * Collects in one object the chunks of a worker that took the body untouched. If the worker sends a whole object
 * instead, the object passes through.
 */
export class BodyCollector {
  readonly #dialect: WholeDialect;
  #collected: Body = {};
  readonly #choices: Body[] = [];

  constructor(dialect: WholeDialect) {
    this.#dialect = dialect;
  }

  /** Whether nothing was added yet. */
  get isEmpty(): boolean {
    return this.#choices.length === 0 && Object.keys(this.#collected).length === 0;
  }

  /** Adds a chunk. @param firstChoice index in the answer of the chunk's first choice. @default 0 */
  add(part: unknown, firstChoice = 0): void {
    const chunk = withFirstChoice(part, firstChoice);
    if (!isRecord(chunk)) return;
    const { choices, ...rest } = chunk;
    for (const [key, value] of Object.entries(rest)) if (value !== null) this.#collected[key] = value;
    if (!Array.isArray(choices)) return;
    for (const choice of choices) if (isRecord(choice)) this.#addChoice(choice);
  }

  /** Returns the object of all that was added. */
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

/** Returns a choice of a chat with all of its keys, which it has even if the worker sent no values for them. */
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
      for (const one of value) known.push(one); // log probabilities, and the worker's own lists
    } else {
      into[key] = value;
    }
  }
}

/** Returns content as a list of parts, even if it came as plain text. */
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

/** Returns one entry of `choices[].logprobs.content` of chats. */
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

/** Returns `choices[].logprobs` of a chat; null when there are none. */
export function chatLogprobs(tokens: readonly TokenLogprob[]): object | null {
  return tokens.length === 0 ? null : { content: tokens.map(chatLogprob), refusal: null };
}

/** Returns `chatLogprobs` of a whole answer, as a list that is made when it is written. */
export function wholeChatLogprobs(tokens: readonly TokenLogprob[]): object | null {
  return tokens.length === 0 ? null : { content: new LazyList(tokens, chatLogprob), refusal: null };
}

/** `choices[].logprobs` of completions. Offsets stay empty. */
interface CompletionLogprobs {
  readonly tokens: string[];
  readonly token_logprobs: number[];
  readonly top_logprobs: Readonly<Record<string, number>>[];
  readonly text_offset: number[];
}

/**
 * Returns alternatives by their text. The sampled token stands among them, under the text that the answer has. Parts of
 * characters all read U+FFFD: of several tokens with one text the likeliest stays, but the sampled one keeps its own
 * value.
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

/** Returns `completionLogprobs` of a whole answer, as lists that are made when they are written. */
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
