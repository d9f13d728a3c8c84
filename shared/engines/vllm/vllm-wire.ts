import { workerError } from '../../errors/index.ts';
import { type CompletionUsage, type EngineRequest, readUsage, type TopLogprob } from '../../protocol/index.ts';
import { asRecord, type UnknownRecord } from '../../records/index.ts';
import {
  COMMON_SAMPLING_FIELDS,
  type FieldRow,
  guidedKind,
  jsonText,
  sampling,
  transferParams,
} from '../server/dialect.ts';
import { logprobOf, type TokenAnswer, type TokenDelta } from '../server/token-reader.ts';

/** Names of a request's fields in vLLM, for both routes. `guided_decoding.backend` is chosen when the engine starts. */
export const SAMPLING_FIELDS: readonly FieldRow[] = [
  ...COMMON_SAMPLING_FIELDS,
  sampling('top_k'),
  sampling('seed'),
  sampling('allowed_token_ids'),
  { ours: 'guided_decoding', theirs: 'structured_outputs', read: structuredOutputs },
  { ours: 'min_tokens', theirs: 'min_tokens', read: ({ stop }) => stop.min_tokens },
  { ours: 'max_thinking_tokens', theirs: 'thinking_token_budget', read: ({ stop }) => stop.max_thinking_tokens },
  { ours: 'logprobs', theirs: 'logprobs', read: ({ output }) => output.logprobs },
  { ours: 'prompt_logprobs', theirs: 'prompt_logprobs', read: ({ output }) => output.prompt_logprobs },
];

/** Fields besides the sampling parameters, the same for both routes. */
export const ROUTING_FIELDS: readonly FieldRow[] = [
  { ours: 'cache_salt', theirs: 'cache_salt', read: ({ routing }) => routing.cache_salt || undefined },
  // vLLM runs lower numbers first, this product higher ones.
  { ours: 'priority', theirs: 'priority', read: ({ routing }) => routing.priority && -routing.priority },
  { ours: 'kv_transfer_params', theirs: 'kv_transfer_params', read: transferParams },
];

/** Parameters with which a prefill worker makes its engine keep the blocks for a decode worker. */
export const REMOTE_DECODE = {
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
} as const;

/** Returns the headers of one request, apart from those for tracing. */
export function routingHeaders({ routing }: EngineRequest): Readonly<Record<string, string>> {
  const { dp_rank: rank, session_id: session } = routing;
  return {
    ...(rank === undefined ? {} : { 'x-data-parallel-rank': `${rank}` }),
    ...(session === undefined || !/^[\x21-\x7e]{1,256}$/.test(session) ? {} : { 'x-session-id': session }),
  };
}

/** Returns the constraint of a chat as fields of vLLM's chat endpoint. */
export function vllmConstraint(request: EngineRequest): Readonly<Record<string, unknown>> {
  return { structured_outputs: structuredOutputs(request) };
}

function structuredOutputs({ sampling }: EngineRequest): unknown {
  const guided = sampling.guided_decoding;
  const kind = guidedKind(guided);
  if (guided === undefined || kind === undefined) return undefined;
  const value = kind === 'structural_tag' ? jsonText(guided.structural_tag) : guided[kind];
  const pattern = guided.whitespace_pattern;
  return { [kind]: value, ...(pattern === undefined ? {} : { whitespace_pattern: pattern }) };
}

/**
 * Reads an event or a whole answer of either route of vLLM; they differ only in their log probabilities.
 * @param countsCached whether it reports how much of a prompt was cached: releases before 0.24 omit a count of 0
 */
export function readVllmAnswer(body: UnknownRecord, countsCached = false): TokenAnswer {
  const choices: readonly unknown[] = Array.isArray(body.choices) ? body.choices : [];
  return {
    deltas: choices.map((choice) => readChoice(asRecord(choice) ?? {})),
    usage: usageOf(body, countsCached),
    kvTransferParams: body.kv_transfer_params ?? undefined,
    promptLogprobs: body.prompt_logprobs ?? asRecord(choices[0])?.prompt_logprobs ?? undefined,
  };
}

function readChoice(choice: UnknownRecord): TokenDelta {
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

function readLogprobs(logprobs: UnknownRecord | undefined): Pick<TokenDelta, 'logprobs' | 'topLogprobs'> {
  if (logprobs === undefined) return { logprobs: undefined, topLogprobs: undefined };
  return Array.isArray(logprobs.content) ? ofGenerate(logprobs.content) : ofCompletions(logprobs);
}

/** Reads `content`: one entry for each token, with its id, its log probability and the alternatives. */
function ofGenerate(content: readonly unknown[]): Pick<TokenDelta, 'logprobs' | 'topLogprobs'> {
  const entries = content.map((entry) => asRecord(entry) ?? {});
  return {
    logprobs: entries.map(({ logprob }) => logprobOf(logprob)),
    topLogprobs: entries.map(({ top_logprobs: top }) =>
      (Array.isArray(top) ? top : []).map((each, at) => {
        const { token_id, token, logprob, rank } = asRecord(each) ?? {};
        return alternative(typeof token_id === 'number' ? token_id : idOf(token), logprob, rank, at);
      }),
    ),
  };
}

/** Reads `token_logprobs` and `top_logprobs`, whose tokens read `token_id:42`. */
function ofCompletions(logprobs: UnknownRecord): Pick<TokenDelta, 'logprobs' | 'topLogprobs'> {
  const { token_logprobs: values, top_logprobs: tops } = logprobs;
  if (!Array.isArray(values)) return { logprobs: undefined, topLogprobs: undefined };
  const rows: readonly unknown[] = Array.isArray(tops) ? tops : [];
  return {
    logprobs: values.map(logprobOf),
    topLogprobs: rows.map((row) =>
      Object.entries(asRecord(row) ?? {}).map(([token, logprob], at) =>
        alternative(idOf(token), logprob, undefined, at),
      ),
    ),
  };
}

function alternative(tokenId: number, logprob: unknown, rank: unknown, at: number): TopLogprob {
  return { token_id: tokenId, logprob: logprobOf(logprob), rank: typeof rank === 'number' ? rank : at + 1 };
}

function idOf(token: unknown): number {
  const [, digits] = /^token_id:(\d+)$/.exec(String(token)) ?? [];
  if (digits === undefined) throw workerError('BackendProtocol', 'the engine returned tokens as text, not as ids');
  return Number(digits);
}

function usageOf(body: UnknownRecord, countsCached: boolean): CompletionUsage | undefined {
  const usage = readUsage(body);
  if (usage === undefined || !countsCached) return usage;
  return { ...usage, prompt_tokens_details: { cached_tokens: usage.prompt_tokens_details?.cached_tokens ?? 0 } };
}
