import { fromWire, type ServeError, workerError } from '../../errors/index.ts';
import type { EngineOutput, FinishReason, NamedLogprob, TokenLogprob, TopLogprob } from '../../protocol/index.ts';
import { isRecord, type UnknownRecord } from '../../records/index.ts';
import type { Tokenizer } from '../../tokens/index.ts';

/** What a worker's word for the end of a choice is told as. `tool_calls` is ours to find out from the text. */
const TOLD: ReadonlyMap<string, FinishReason> = new Map([
  ['eos', 'stop'],
  ['stop', 'stop'],
  ['tool_calls', 'stop'],
  ['cancelled', 'stop'],
  ['abort', 'stop'],
  ['length', 'length'],
  ['content_filter', 'content_filter'],
]);

/** The reason that the client reads for one that `failureInFinish` let pass. */
export function toldReason(reason: EngineOutput['finish_reason']): FinishReason {
  return (typeof reason === 'string' ? TOLD.get(reason) : undefined) ?? 'stop';
}

/** The failure that a finish reason reports: told in words, named `error`, or a word that nobody knows. */
export function failureInFinish(reason: EngineOutput['finish_reason']): ServeError | undefined {
  if (reason === undefined || reason === null) return undefined;
  if (typeof reason === 'object') return fromWire({ kind: 'Internal', message: reason.error });
  if (TOLD.has(reason)) return undefined;
  return workerError('Internal', `the worker ended a choice with the finish reason ${JSON.stringify(reason)}`);
}

/** The failure that a body in OpenAI's own shape reports as finish reason. Other words are its author's and pass untouched. */
export function failureInBody(body: unknown): ServeError | undefined {
  const choices = (body as { readonly choices?: unknown } | null | undefined)?.choices;
  if (!Array.isArray(choices)) return undefined;
  const hasFailed = choices.some((choice) => choice?.finish_reason === 'error');
  return hasFailed ? workerError('Internal', 'the worker ended a choice with the finish reason "error"') : undefined;
}

/** A body in OpenAI's own shape that does not say how much of the prompt was cached. */
export function withoutCached(body: unknown): unknown {
  if (!isRecord(body) || !isRecord(body.usage) || !isRecord(body.usage.prompt_tokens_details)) return body;
  const { cached_tokens: _hidden, ...details } = body.usage.prompt_tokens_details;
  return { ...body, usage: { ...body.usage, prompt_tokens_details: details } };
}

/** Tool calls of one choice: more than any answer has, and few enough for a list with as many places. */
const CALLS_MAX = 1024;

/**
 * Looks at the places that a body in OpenAI's shape names: what puts bodies together makes room up to each of them.
 * @throws ServeError `bad_worker_response` for a choice beyond those asked for, or a call beyond any
 */
export function requireChoicesBelow(count: number, body: unknown): void {
  const choices = (body as { readonly choices?: unknown } | null | undefined)?.choices;
  if (!Array.isArray(choices)) return;
  if (choices.length > count) throw workerError('BackendProtocol', `${choices.length} choices of ${count} asked for`);
  for (const choice of choices) {
    requirePlace(choice?.index, count, 'choice');
    for (const said of [choice?.delta, choice?.message]) {
      if (!Array.isArray(said?.tool_calls)) continue;
      if (said.tool_calls.length > CALLS_MAX) throw workerError('BackendProtocol', `more than ${CALLS_MAX} tool calls`);
      for (const call of said.tool_calls) requirePlace(call?.index, CALLS_MAX, 'tool call');
    }
  }
}

function requirePlace(index: unknown, count: number, what: string): void {
  if (index === undefined || index === null) return;
  if (Number.isInteger(index) && (index as number) >= 0 && (index as number) < count) return;
  throw workerError('BackendProtocol', `the index of a ${what} is none below ${count}`);
}

/**
 * Leaves the first tool call of each choice in the chat bodies of a worker that calls several tools although the client wants
 * one at a time. One for each request: the chunks of a stream name their calls by index, and the first that is named stays.
 */
export class OnlyFirstCall {
  /** Index of the call that stays, by choice. */
  readonly #kept = new Map<number, number>();

  /** The body without further calls; undefined when nothing is left of a chunk. What is no chat body stays as it is. */
  of(body: unknown): unknown {
    if (!isRecord(body) || !Array.isArray(body.choices)) return body;
    const given: readonly unknown[] = body.choices;
    const choices = given.map((choice, at) => (isRecord(choice) ? this.#choice(choice, at) : choice));
    if (choices.every((choice, at) => choice === given[at])) return body;
    const isEmpty = choices.every((choice) => choice === undefined) && body.usage == null;
    return isEmpty ? undefined : { ...body, choices: choices.filter((choice) => choice !== undefined) };
  }

  /** The same choice when it holds no further call; undefined when it holds nothing else. */
  #choice(choice: UnknownRecord, at: number): unknown {
    const key = isRecord(choice.delta) ? 'delta' : 'message';
    const said = choice[key];
    if (!isRecord(said) || !Array.isArray(said.tool_calls)) return choice;
    const index = typeof choice.index === 'number' ? choice.index : at;
    const calls = said.tool_calls.filter((call: unknown, place) => this.#stays(index, call, place));
    if (calls.length === said.tool_calls.length) return choice;
    const { tool_calls: _all, ...rest } = said;
    const saysMore = calls.length > 0 || Object.values(rest).some((value) => value !== null && value !== '');
    if (!saysMore && choice.finish_reason == null) return undefined;
    return { ...choice, [key]: calls.length === 0 ? rest : { ...rest, tool_calls: calls } };
  }

  #stays(choice: number, call: unknown, place: number): boolean {
    const index = isRecord(call) && typeof call.index === 'number' ? call.index : place;
    const kept = this.#kept.get(choice);
    if (kept === undefined) this.#kept.set(choice, index);
    return kept === undefined || kept === index;
  }
}

export interface LogprobStyle {
  readonly tokenizer: Tokenizer;
  /** Tokens read `token_id:<id>`. */
  readonly asIds: boolean;
  readonly skipSpecialTokens: boolean;
  /** Most alternatives to show, the sampled token not counted; 0 = none at all. */
  readonly alternatives: number;
}

const UTF8 = new TextEncoder();

/** The log probabilities of one engine output, named for clients; undefined when the worker sent none. */
export function namedLogprobs(output: EngineOutput, style: LogprobStyle): TokenLogprob[] | undefined {
  const { token_ids: ids, log_probs: logprobs, top_logprobs: tops } = output;
  if (ids === undefined || logprobs === undefined || logprobs === null) return undefined;
  return ids.flatMap((id, at) => {
    const logprob = logprobs[at];
    return logprob === undefined ? [] : [oneToken(id, logprob, tops?.[at] ?? [], style)];
  });
}

/** The sampled token stands among its alternatives; it is appended when the worker left it out. */
function oneToken(id: number, logprob: number, alternatives: readonly TopLogprob[], style: LogprobStyle): TokenLogprob {
  const own =
    style.skipSpecialTokens && style.tokenizer.isSpecial(id) && !style.asIds
      ? unseen(id, logprob)
      : named(id, logprob, style);
  if (style.alternatives === 0) return { ...own, top: [] };
  const given = alternatives.slice(0, style.alternatives + 1);
  const hasOwn = given.some((alternative) => alternative.token_id === id);
  const shown = hasOwn ? given : given.slice(0, style.alternatives);
  const top = shown.map((alternative) => named(alternative.token_id, alternative.logprob, style));
  return { ...own, top: hasOwn || top.length === 0 ? top : [...top, own] };
}

/** A skipped special token: it has no text in the answer. Among the alternatives of another token it is named. */
function unseen(tokenId: number, logprob: number): NamedLogprob {
  return { tokenId, token: '', bytes: null, logprob };
}

function named(tokenId: number, logprob: number, { tokenizer, asIds }: LogprobStyle): NamedLogprob {
  if (asIds) {
    const token = `token_id:${tokenId}`;
    return { tokenId, token, bytes: [...UTF8.encode(token)], logprob };
  }
  const token = tokenizer.decode([tokenId], { skipSpecialTokens: false });
  const bytes = tokenizer.tokenBytes(tokenId);
  return { tokenId, token, bytes: bytes.length === 0 ? null : [...bytes], logprob };
}
