import { workerError } from '../../errors/index.ts';
import { type EngineRequest, readUsage } from '../../protocol/index.ts';
import { asRecord, exactText, type UnknownRecord } from '../../records/index.ts';
import { COMMON_SAMPLING_FIELDS, type FieldRow, guidedKind, sampling } from '../server/dialect.ts';
import { logprobOf, type TokenAnswer, type TokenDelta } from '../server/token-reader.ts';

/** Names of a request's fields in `/v1/completions` of `trtllm-serve`, which refuses every other field. */
export const FIELDS: readonly FieldRow[] = [
  ...COMMON_SAMPLING_FIELDS,
  { ours: 'top_k', theirs: 'top_k', read: ({ sampling: { top_k: k } }) => (k === -1 ? undefined : k) },
  sampling('seed'),
  sampling('allowed_token_ids', undefined),
  { ours: 'guided_decoding', theirs: 'response_format', read: responseFormat },
  { ours: 'min_tokens', theirs: 'min_tokens', read: ({ stop }) => stop.min_tokens },
  { ours: 'max_thinking_tokens', theirs: 'thinking_token_budget', read: ({ stop }) => stop.max_thinking_tokens },
  // It names tokens by their text: the chosen ones stand beside their ids, others could not be identified.
  { ours: 'top_logprobs', theirs: undefined, read: ({ output }) => (output.logprobs ?? 0) || undefined },
  { ours: 'logprobs', theirs: 'logprobs', read: ({ output }) => (output.logprobs === 0 ? 1 : undefined) },
  { ours: 'prompt_logprobs', theirs: undefined, read: ({ output }) => output.prompt_logprobs },
  // Its hashes would omit the salt, and tenants would read each other's blocks.
  { ours: 'cache_salt', theirs: undefined, read: ({ routing }) => routing.cache_salt || undefined },
  { ours: 'lora_name', theirs: undefined, read: ({ routing }) => routing.lora_name },
];

function responseFormat({ sampling: { guided_decoding: guided } }: EngineRequest): unknown {
  const kind = guidedKind(guided);
  switch (kind) {
    case undefined:
      return undefined;
    case 'json':
      return { type: 'json', schema: objectOf(guided?.json) };
    case 'regex':
      return { type: 'regex', regex: guided?.regex };
    case 'grammar':
      return { type: 'ebnf', ebnf: guided?.grammar };
    case 'choice':
      return { type: 'regex', regex: (guided?.choice ?? []).map(literal).join('|') };
    case 'structural_tag':
      throw workerError('InvalidArgument', 'structural_tag is not supported by TensorRT-LLM', {
        param: 'guided_decoding',
      });
  }
}

function objectOf(schema: unknown): unknown {
  return typeof schema === 'string' ? JSON.parse(schema) : schema;
}

/** Returns the pattern that matches only this text. */
function literal(text: string): string {
  return `(${text.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&')})`;
}

/** Parameters with which a prefill worker makes its engine keep the blocks for a decode worker. */
export const CONTEXT_ONLY = { request_type: 'context_only' } as const;

/**
 * Returns a prefill's parameters for the decode worker, as text, because its ids have more digits than numbers hold.
 */
export function prefillResult({ kvTransferParams: params }: TokenAnswer): unknown {
  const given = asRecord(params);
  return given === undefined ? {} : { trtllm: exactText({ ...given, request_type: 'generation_only' }) };
}

/** Returns these parameters at the decode worker; undefined if the prompt is computed here. */
export function generationParams({ prefillResult: result }: EngineRequest): string | undefined {
  const text = asRecord(result?.disaggregated_params)?.trtllm;
  return typeof text === 'string' && text.startsWith('{') ? text : undefined;
}

/** Reads an event or a whole answer of `/v1/completions` with `detokenize: false`. */
export function readTrtllmAnswer(body: UnknownRecord): TokenAnswer {
  const choices: readonly unknown[] = Array.isArray(body.choices) ? body.choices : [];
  return {
    deltas: choices.map((choice) => readChoice(asRecord(choice) ?? {})),
    usage: readUsage(body),
    kvTransferParams: asRecord(choices[0])?.disaggregated_params ?? undefined,
    promptLogprobs: undefined,
  };
}

function readChoice({
  index,
  token_ids: ids,
  finish_reason: finish,
  stop_reason: reason,
  logprobs,
}: UnknownRecord): TokenDelta {
  if (ids !== null && ids !== undefined && !Array.isArray(ids)) {
    throw workerError('BackendProtocol', 'the engine answered without token ids');
  }
  const chosen = asRecord(logprobs)?.token_logprobs;
  return {
    index: typeof index === 'number' ? index : 0,
    tokenIds: (ids ?? []) as readonly number[], // checked by the reader
    // A prefill is over when its prompt is computed.
    finish: typeof finish !== 'string' ? undefined : finish === 'not_finished' ? 'length' : finish,
    stopReason: typeof reason === 'string' || typeof reason === 'number' ? reason : undefined,
    logprobs: Array.isArray(chosen) ? chosen.map(logprobOf) : undefined,
    topLogprobs: undefined,
  };
}
