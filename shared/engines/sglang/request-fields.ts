import type { EngineRequest, GuidedDecoding } from '../../protocol/generation/index.ts';
import { type FieldRow, guidedKind, jsonText, sampling } from '../server/request-fields.ts';
import { stopIds } from '../server/token-reader.ts';

/** What a server of SGLang can do beyond the common. */
export interface SglangAbilities {
  /** The server puts requests of a higher priority first, or of a lower one; undefined = it has no priorities. */
  readonly priority: 'higher-first' | 'lower-first' | undefined;
  /** What it calls a salt of the cache. */
  readonly saltField: 'cache_salt' | 'extra_key';
}

/**
 * How a request's fields are called in SGLang's `sampling_params`. `stop` strings are the frontend's; `length_penalty` has
 * no meaning without beam search; `guided_decoding.backend` and `whitespace_pattern` are chosen when the engine starts.
 */
export const SAMPLING_FIELDS: readonly FieldRow[] = [
  sampling('n'),
  sampling('presence_penalty'),
  sampling('frequency_penalty'),
  sampling('repetition_penalty'),
  sampling('temperature'),
  sampling('top_p'),
  // SGLang takes -1 for all tokens, and no 0.
  { ours: 'top_k', theirs: 'top_k', read: ({ sampling }) => (sampling.top_k === 0 ? -1 : sampling.top_k) },
  sampling('min_p'),
  sampling('seed', 'sampling_seed'),
  sampling('logit_bias'),
  sampling('length_penalty', null),
  sampling('include_stop_str_in_output', null),
  sampling('detokenize', null),
  { ours: 'allowed_token_ids', theirs: undefined, read: ({ sampling }) => nonEmpty(sampling.allowed_token_ids) },
  { ours: 'bad_words_token_ids', theirs: undefined, read: ({ sampling }) => nonEmpty(sampling.bad_words_token_ids) },
  { ours: 'use_beam_search', theirs: undefined, read: ({ sampling }) => sampling.use_beam_search || undefined },
  { ours: 'best_of', theirs: undefined, read: bestOf },
  guided('json', 'json_schema', ({ json }) => jsonText(json)),
  guided('regex', 'regex', ({ regex }) => regex),
  guided('choice', 'regex', ({ choice }) => `(${(choice ?? []).map(escapeRegex).join('|')})`),
  guided('grammar', 'ebnf', ({ grammar }) => grammar),
  guided('structural_tag', 'structural_tag', ({ structural_tag: tag }) => jsonText(tag)),
  { ours: 'max_tokens', theirs: 'max_new_tokens', read: ({ stop }) => stop.max_tokens },
  { ours: 'min_tokens', theirs: 'min_new_tokens', read: ({ stop }) => stop.min_tokens },
  { ours: 'ignore_eos', theirs: 'ignore_eos', read: ({ stop }) => stop.ignore_eos },
  { ours: 'stop_token_ids', theirs: 'stop_token_ids', read: ({ stop }) => nonEmpty(stopIds(stop)) },
  { ours: 'extra_args', theirs: 'custom_params', read: ({ extraArgs }) => extraArgs },
];

/** Fields of the request itself. */
export function requestFields({ priority, saltField }: SglangAbilities): readonly FieldRow[] {
  const sign = priority === 'lower-first' ? -1 : 1;
  const asked = ({ routing }: EngineRequest): unknown => routing.priority && sign * routing.priority;
  return [
    { ours: 'lora_name', theirs: 'lora_path', read: ({ routing }) => routing.lora_name },
    { ours: 'cache_salt', theirs: saltField, read: ({ routing }) => routing.cache_salt || undefined },
    // A hint: an engine without priorities may refuse requests that have one.
    { ours: 'priority', theirs: priority === undefined ? null : 'priority', read: asked },
    { ours: 'dp_rank', theirs: 'data_parallel_rank', read: ({ routing }) => routing.dp_rank },
    { ours: 'prefill_dp_rank', theirs: 'disagg_prefill_dp_rank', read: ({ routing }) => routing.prefill_dp_rank },
    { ours: 'logprobs', theirs: 'top_logprobs_num', read: ({ output }) => output.logprobs ?? output.prompt_logprobs },
    {
      ours: 'require_reasoning',
      theirs: 'require_reasoning',
      read: (request) => request.requireReasoning || undefined,
    },
    { ours: 'max_thinking_tokens', theirs: 'max_thinking_tokens', read: ({ stop }) => stop.max_thinking_tokens },
    { ours: 'bootstrap_host', theirs: 'bootstrap_host', read: ({ bootstrapInfo }) => bootstrapInfo?.bootstrap_host },
    { ours: 'bootstrap_port', theirs: 'bootstrap_port', read: ({ bootstrapInfo }) => bootstrapInfo?.bootstrap_port },
  ];
}

function guided(
  kind: NonNullable<ReturnType<typeof guidedKind>>,
  theirs: string,
  read: (guided: GuidedDecoding) => unknown,
): FieldRow {
  return {
    ours: 'guided_decoding',
    theirs,
    read: ({ sampling: { guided_decoding: decoding } }) =>
      decoding !== undefined && guidedKind(decoding) === kind ? read(decoding) : undefined,
  };
}

function bestOf({ sampling }: EngineRequest): number | undefined {
  return sampling.best_of === undefined || sampling.best_of === (sampling.n ?? 1) ? undefined : sampling.best_of;
}

function nonEmpty<T>(list: readonly T[] | undefined): readonly T[] | undefined {
  return list === undefined || list.length === 0 ? undefined : list;
}

function escapeRegex(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}
