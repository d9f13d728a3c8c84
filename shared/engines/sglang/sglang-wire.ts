import { faultOfStatus, workerError } from '../../errors/index.ts';
import type { CompletionUsage, EngineRequest, GuidedDecoding, TopLogprob } from '../../protocol/index.ts';
import { asRecord, type UnknownRecord } from '../../records/index.ts';
import { asText } from '../http/upstream.ts';
import { saltWithAdapter } from '../kv-stream/adapter-salt.ts';
import { COMMON_SAMPLING_FIELDS, type FieldRow, guidedKind, jsonText, nonEmpty, sampling } from '../server/dialect.ts';
import { logprobOf, type TokenAnswer, type TokenDelta } from '../server/token-reader.ts';

/** Abilities of a server of SGLang beyond the common ones. */
export interface SglangAbilities {
  /** Whether the server runs requests of a higher or a lower priority first; undefined = it has no priorities. */
  readonly priority: 'higher-first' | 'lower-first' | undefined;
  /** Name of the cache's salt. */
  readonly saltField: 'cache_salt' | 'extra_key';
}

/**
 * Names of a request's fields in SGLang's `sampling_params`. `guided_decoding.backend` and `whitespace_pattern` are
 * chosen when the engine starts.
 */
export const SAMPLING_FIELDS: readonly FieldRow[] = [
  ...COMMON_SAMPLING_FIELDS,
  // SGLang takes -1 for all tokens, not 0.
  { ours: 'top_k', theirs: 'top_k', read: ({ sampling }) => (sampling.top_k === 0 ? -1 : sampling.top_k) },
  sampling('seed', 'sampling_seed'),
  { ours: 'allowed_token_ids', theirs: undefined, read: ({ sampling }) => nonEmpty(sampling.allowed_token_ids) },
  guided('json', 'json_schema', ({ json }) => jsonText(json)),
  guided('regex', 'regex', ({ regex }) => regex),
  guided('choice', 'regex', ({ choice }) => anyOf(choice)),
  guided('grammar', 'ebnf', ({ grammar }) => grammar),
  guided('structural_tag', 'structural_tag', ({ structural_tag: tag }) => jsonText(tag)),
  { ours: 'max_tokens', theirs: 'max_new_tokens', read: ({ stop }) => stop.max_tokens },
  { ours: 'min_tokens', theirs: 'min_new_tokens', read: ({ stop }) => stop.min_tokens },
  { ours: 'extra_args', theirs: 'custom_params', read: ({ extraArgs }) => extraArgs },
];

/** Returns the names of the fields by which a request finds its place in the engine, the same for both routes. */
export function placeFields({ priority, saltField }: SglangAbilities): readonly FieldRow[] {
  const sign = priority === 'lower-first' ? -1 : 1;
  const asked = ({ routing }: EngineRequest): unknown => routing.priority && sign * routing.priority;
  return [
    { ours: 'lora_name', theirs: 'lora_path', read: ({ routing }) => routing.lora_name },
    { ours: 'cache_salt', theirs: saltField, read: ({ routing }) => saltOf(routing, saltField) },
    // A hint: an engine without priorities may refuse requests that have one.
    { ours: 'priority', theirs: priority === undefined ? null : 'priority', read: asked },
    { ours: 'dp_rank', theirs: 'data_parallel_rank', read: ({ routing }) => routing.dp_rank },
  ];
}

/** Returns the names of the fields of the request itself. */
export function requestFields(abilities: SglangAbilities): readonly FieldRow[] {
  return [
    ...placeFields(abilities),
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

/**
 * Returns the salt. Events name a `cache_salt`, and adapters only if the engine was configured to; they do not name an
 * `extra_key`.
 */
function saltOf(
  { lora_name: loraName, cache_salt: cacheSalt }: EngineRequest['routing'],
  field: SglangAbilities['saltField'],
): string | undefined {
  return field === 'cache_salt' ? saltWithAdapter(loraName, cacheSalt) : cacheSalt || undefined;
}

/** Returns the constraint of a chat as fields of SGLang's chat endpoint. */
export function sglangConstraint({
  sampling: { guided_decoding: guided },
}: EngineRequest): Readonly<Record<string, unknown>> {
  switch (guidedKind(guided)) {
    case 'json':
      return { response_format: { type: 'json_schema', json_schema: { name: 'output', schema: guided?.json } } };
    case 'regex':
      return { regex: guided?.regex };
    case 'choice':
      return { regex: anyOf(guided?.choice) };
    case 'grammar':
      return { ebnf: guided?.grammar };
    case 'structural_tag':
      return { response_format: guided?.structural_tag };
    case undefined:
      return {};
  }
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

function anyOf(choices: readonly string[] = []): string {
  return `(${choices.map(escapeRegex).join('|')})`;
}

function escapeRegex(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}

/**
 * Reads an event or a whole answer of `/generate`. Its ids and log probabilities may be only the new ones or all so
 * far; `completion_tokens` shows which.
 */
export function readSglangAnswer(body: UnknownRecord, sent: (index: number) => number): TokenAnswer {
  const results: readonly unknown[] = Array.isArray(body) ? body : [body];
  const deltas = results.map((result, at) => readResult(asRecord(result) ?? {}, at, sent));
  const metas = results.map((result) => asRecord(asRecord(result)?.meta_info) ?? {});
  const isOver = deltas.some(({ finish }) => finish !== undefined);
  return {
    deltas,
    usage: isOver ? usageOf(metas) : undefined,
    kvTransferParams: undefined,
    promptLogprobs: isOver ? promptLogprobs(metas[0] ?? {}) : undefined,
  };
}

function readResult(result: UnknownRecord, at: number, sent: (index: number) => number): TokenDelta {
  const { output_ids: ids, index: named } = result;
  const meta = asRecord(result.meta_info);
  const total = meta?.completion_tokens;
  if (!Array.isArray(ids) || meta === undefined || typeof total !== 'number') {
    throw workerError('BackendProtocol', 'the engine answered without token ids');
  }
  const index = typeof named === 'number' ? named : at;
  const fresh = total - sent(index);
  if (fresh < 0 || fresh > ids.length) {
    throw workerError('BackendProtocol', `the engine sent ${ids.length} ids where ${fresh} are new`);
  }
  const finish = asRecord(meta.finish_reason);
  if (finish?.type === 'abort') refuseAborted(finish);
  const matched = finish?.matched;
  return {
    index,
    tokenIds: fresh === 0 ? [] : (ids.slice(-fresh) as number[]), // checked by the reader
    finish: asText(finish?.type),
    stopReason: typeof matched === 'number' || typeof matched === 'string' ? matched : undefined,
    logprobs: lastOf(meta.output_token_logprobs, fresh)?.map((entry) => numberAt(entry, 0)),
    topLogprobs: lastOf(meta.output_top_logprobs, fresh)?.map(alternatives),
  };
}

/** Refuses a request that the engine itself aborted, because it was invalid or for lack of room. */
function refuseAborted(finish: UnknownRecord): void {
  const status = finish.status_code;
  if (typeof status !== 'number') return;
  const message = asText(finish.message) ?? 'the engine aborted the request';
  throw faultOfStatus(status, { message, param: undefined, labels: '', status });
}

function usageOf(metas: readonly UnknownRecord[]): CompletionUsage {
  const prompt = countOf(metas[0]?.prompt_tokens);
  const completion = metas.reduce((sum, meta) => sum + countOf(meta.completion_tokens), 0);
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: countOf(metas[0]?.cached_tokens) },
  };
}

/**
 * Returns the prompt's log probabilities in vLLM's form: null for the first token, then the log probability of each id
 * by the id.
 */
function promptLogprobs(meta: UnknownRecord): unknown {
  const own = meta.input_token_logprobs;
  if (!Array.isArray(own) || own.length === 0) return undefined;
  const tops: readonly unknown[] = Array.isArray(meta.input_top_logprobs) ? meta.input_top_logprobs : [];
  return own.map((entry: unknown, at) => {
    if (!Array.isArray(entry) || entry[0] === null) return null;
    const all = [...alternatives(tops[at]), { token_id: numberAt(entry, 1), logprob: numberAt(entry, 0) }];
    return Object.fromEntries(all.map(({ token_id, logprob }) => [token_id, { logprob }]));
  });
}

/** Reads rows of `[log probability, id, text]`. */
function alternatives(row: unknown): readonly TopLogprob[] {
  if (!Array.isArray(row)) return [];
  return row.map((entry, at) => ({ rank: at + 1, token_id: numberAt(entry, 1), logprob: numberAt(entry, 0) }));
}

function lastOf(list: unknown, count: number): readonly unknown[] | undefined {
  if (!Array.isArray(list) || list.length < count) return undefined;
  return count === 0 ? [] : list.slice(-count);
}

function numberAt(entry: unknown, at: number): number {
  return logprobOf(Array.isArray(entry) ? entry[at] : undefined);
}

function countOf(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}
