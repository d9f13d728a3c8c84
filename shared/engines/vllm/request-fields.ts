import type { EngineRequest } from '../../protocol/generation/index.ts';
import { type FieldRow, guidedKind, jsonText, sampling, transferParams } from '../server/request-fields.ts';
import { stopIds } from '../server/token-reader.ts';

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
