import { workerError } from '../../errors/index.ts';
import type { CompletionUsage, EngineRequest, TopLogprob } from '../../protocol/generation/index.ts';
import { asRecord } from '../../records/index.ts';
import { type FieldRow, guidedKind, jsonText, sampling, transferParams } from '../server/dialect.ts';
import { stopIds, type TokenAnswer, type TokenDelta } from '../server/token-reader.ts';

/**
 * How a request's fields are called by vLLM, for both of its ways.
 *
 * - `stop` strings, `include_stop_str_in_output` and `detokenize` are the frontend's: the engine gives tokens.
 * - `length_penalty` means something for beam search alone, which neither way has; `guided_decoding.backend` is chosen when
 *   the engine starts.
 */
export const SAMPLING_FIELDS: readonly FieldRow[] = [
  sampling('n'),
  sampling('presence_penalty'),
  sampling('frequency_penalty'),
  sampling('repetition_penalty'),
  sampling('temperature'),
  sampling('top_p'),
  sampling('top_k'),
  sampling('min_p'),
  sampling('seed'),
  sampling('logit_bias'),
  sampling('allowed_token_ids'),
  sampling('length_penalty', null),
  sampling('include_stop_str_in_output', null),
  sampling('detokenize', null),
  { ours: 'bad_words_token_ids', theirs: undefined, read: ({ sampling }) => nonEmpty(sampling.bad_words_token_ids) },
  { ours: 'use_beam_search', theirs: undefined, read: ({ sampling }) => sampling.use_beam_search || undefined },
  { ours: 'best_of', theirs: undefined, read: bestOf },
  { ours: 'guided_decoding', theirs: 'structured_outputs', read: structuredOutputs },
  { ours: 'min_tokens', theirs: 'min_tokens', read: ({ stop }) => stop.min_tokens },
  { ours: 'ignore_eos', theirs: 'ignore_eos', read: ({ stop }) => stop.ignore_eos },
  { ours: 'stop_token_ids', theirs: 'stop_token_ids', read: ({ stop }) => nonEmpty(stopIds(stop)) },
  { ours: 'max_thinking_tokens', theirs: 'thinking_token_budget', read: ({ stop }) => stop.max_thinking_tokens },
  { ours: 'logprobs', theirs: 'logprobs', read: ({ output }) => output.logprobs },
  { ours: 'prompt_logprobs', theirs: 'prompt_logprobs', read: ({ output }) => output.prompt_logprobs },
];

/** Fields beside the sampling parameters, the same for both ways. */
export const ROUTING_FIELDS: readonly FieldRow[] = [
  { ours: 'cache_salt', theirs: 'cache_salt', read: ({ routing }) => routing.cache_salt || undefined },
  // vLLM runs lower numbers first, we run higher ones first.
  { ours: 'priority', theirs: 'priority', read: ({ routing }) => routing.priority && -routing.priority },
  { ours: 'kv_transfer_params', theirs: 'kv_transfer_params', read: transferParams },
];

/** What a prefill worker asks of its engine so that a decode worker can fetch the blocks. */
export const REMOTE_DECODE = {
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
} as const;

/** Headers of one request beside those that trace it. */
export function routingHeaders({ routing }: EngineRequest): Readonly<Record<string, string>> {
  const { dp_rank: rank, session_id: session } = routing;
  return {
    ...(rank === undefined ? {} : { 'x-data-parallel-rank': `${rank}` }),
    ...(session === undefined || !/^[\x21-\x7e]{1,256}$/.test(session) ? {} : { 'x-session-id': session }),
  };
}

/** Sampling from more than are returned; the same number is no more than `n`. */
function bestOf({ sampling }: EngineRequest): number | undefined {
  return sampling.best_of === undefined || sampling.best_of === (sampling.n ?? 1) ? undefined : sampling.best_of;
}

function structuredOutputs({ sampling }: EngineRequest): unknown {
  const guided = sampling.guided_decoding;
  const kind = guidedKind(guided);
  if (guided === undefined || kind === undefined) return undefined;
  const value = kind === 'structural_tag' ? jsonText(guided.structural_tag) : guided[kind];
  const pattern = guided.whitespace_pattern;
  return { [kind]: value, ...(pattern === undefined ? {} : { whitespace_pattern: pattern }) };
}

function nonEmpty<T>(list: readonly T[] | undefined): readonly T[] | undefined {
  return list === undefined || list.length === 0 ? undefined : list;
}

type JsonRecord = Readonly<Record<string, unknown>>;

/** Reads an event or a whole answer of either way of vLLM: they differ in their log probabilities alone. */
export function readVllmAnswer(body: JsonRecord): TokenAnswer {
  const choices: readonly unknown[] = Array.isArray(body.choices) ? body.choices : [];
  return {
    deltas: choices.map((choice) => readChoice(asRecord(choice) ?? {})),
    usage: readUsage(body.usage),
    kvTransferParams: body.kv_transfer_params ?? undefined,
    promptLogprobs: body.prompt_logprobs ?? asRecord(choices[0])?.prompt_logprobs ?? undefined,
  };
}

function readChoice(choice: JsonRecord): TokenDelta {
  const { index, token_ids: ids, finish_reason: finish, stop_reason: stopReason } = choice;
  if (ids !== null && ids !== undefined && !Array.isArray(ids)) {
    throw workerError('BackendProtocol', 'the engine answered without token ids');
  }
  return {
    index: typeof index === 'number' ? index : 0,
    tokenIds: (ids ?? []) as readonly number[], // checked by the reader
    finish: typeof finish === 'string' ? finish : undefined,
    stopReason: typeof stopReason === 'string' || typeof stopReason === 'number' ? stopReason : undefined,
    ...readLogprobs(asRecord(choice.logprobs)),
  };
}

function readLogprobs(logprobs: JsonRecord | undefined): Pick<TokenDelta, 'logprobs' | 'topLogprobs'> {
  if (logprobs === undefined) return { logprobs: undefined, topLogprobs: undefined };
  return Array.isArray(logprobs.content) ? ofGenerate(logprobs.content) : ofCompletions(logprobs);
}

/** `content`: one entry a token, with its id, its log probability and the alternatives. */
function ofGenerate(content: readonly unknown[]): Pick<TokenDelta, 'logprobs' | 'topLogprobs'> {
  const entries = content.map((entry) => asRecord(entry) ?? {});
  return {
    logprobs: entries.map(({ logprob }) => numberOf(logprob)),
    topLogprobs: entries.map(({ top_logprobs: top }) =>
      (Array.isArray(top) ? top : []).map((each, at) => {
        const { token_id, token, logprob, rank } = asRecord(each) ?? {};
        return alternative(typeof token_id === 'number' ? token_id : idOf(token), logprob, rank, at);
      }),
    ),
  };
}

/** `token_logprobs` and `top_logprobs`, whose tokens read `token_id:42`. */
function ofCompletions(logprobs: JsonRecord): Pick<TokenDelta, 'logprobs' | 'topLogprobs'> {
  const { token_logprobs: values, top_logprobs: tops } = logprobs;
  if (!Array.isArray(values)) return { logprobs: undefined, topLogprobs: undefined };
  const rows: readonly unknown[] = Array.isArray(tops) ? tops : [];
  return {
    logprobs: values.map(numberOf),
    topLogprobs: rows.map((row) =>
      Object.entries(asRecord(row) ?? {}).map(([token, logprob], at) =>
        alternative(idOf(token), logprob, undefined, at),
      ),
    ),
  };
}

function alternative(tokenId: number, logprob: unknown, rank: unknown, at: number): TopLogprob {
  return { token_id: tokenId, logprob: numberOf(logprob), rank: typeof rank === 'number' ? rank : at + 1 };
}

function idOf(token: unknown): number {
  const [, digits] = /^token_id:(\d+)$/.exec(String(token)) ?? [];
  if (digits === undefined) throw workerError('BackendProtocol', 'the engine names tokens by their text');
  return Number(digits);
}

/** Minus infinity is no JSON number; engines use -9999 or null for it. */
function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : -9999;
}

function readUsage(value: unknown): CompletionUsage | undefined {
  const usage = asRecord(value);
  if (typeof usage?.prompt_tokens !== 'number') return undefined;
  const { prompt_tokens, completion_tokens, total_tokens } = usage;
  const cached = asRecord(usage.prompt_tokens_details)?.cached_tokens;
  return {
    prompt_tokens,
    completion_tokens: typeof completion_tokens === 'number' ? completion_tokens : 0,
    ...(typeof total_tokens === 'number' ? { total_tokens } : {}),
    ...(typeof cached === 'number' ? { prompt_tokens_details: { cached_tokens: cached } } : {}),
  };
}
