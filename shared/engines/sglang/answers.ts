import { workerError } from '../../errors/index.ts';
import type { CompletionUsage, TopLogprob } from '../../protocol/generation/index.ts';
import { asRecord } from '../../records/index.ts';
import { faultOfStatus } from '../http/upstream-errors.ts';
import { asText } from '../server/questions.ts';
import type { TokenAnswer, TokenDelta } from '../server/token-reader.ts';

type JsonRecord = Readonly<Record<string, unknown>>;

/**
 * Reads an event or a whole answer of `/generate`. Ids and log probabilities may be those of the event or all so far,
 * which `completion_tokens` tells apart.
 */
export function readSglangAnswer(body: JsonRecord, sent: (index: number) => number): TokenAnswer {
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

function readResult(result: JsonRecord, at: number, sent: (index: number) => number): TokenDelta {
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

/** The engine gave the request up by itself: for a bad request or for want of room. */
function refuseAborted(finish: JsonRecord): void {
  const status = finish.status_code;
  if (typeof status !== 'number') return;
  const message = asText(finish.message) ?? 'the engine aborted the request';
  throw faultOfStatus(status, { message, param: undefined, labels: '', status });
}

function usageOf(metas: readonly JsonRecord[]): CompletionUsage {
  const prompt = countOf(metas[0]?.prompt_tokens);
  const completion = metas.reduce((sum, meta) => sum + countOf(meta.completion_tokens), 0);
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: countOf(metas[0]?.cached_tokens) },
  };
}

/** As vLLM has them: null for the first token, then the log probability of each id by the id. */
function promptLogprobs(meta: JsonRecord): unknown {
  const own = meta.input_token_logprobs;
  if (!Array.isArray(own) || own.length === 0) return undefined;
  const tops: readonly unknown[] = Array.isArray(meta.input_top_logprobs) ? meta.input_top_logprobs : [];
  return own.map((entry: unknown, at) => {
    if (!Array.isArray(entry) || entry[0] === null) return null;
    const all = [...alternatives(tops[at]), { token_id: numberAt(entry, 1), logprob: numberAt(entry, 0) }];
    return Object.fromEntries(all.map(({ token_id, logprob }) => [token_id, { logprob }]));
  });
}

/** `[log probability, id, text]` each. */
function alternatives(row: unknown): readonly TopLogprob[] {
  if (!Array.isArray(row)) return [];
  return row.map((entry, at) => ({ rank: at + 1, token_id: numberAt(entry, 1), logprob: numberAt(entry, 0) }));
}

function lastOf(list: unknown, count: number): readonly unknown[] | undefined {
  if (!Array.isArray(list) || list.length < count) return undefined;
  return count === 0 ? [] : list.slice(-count);
}

function numberAt(entry: unknown, at: number): number {
  const value: unknown = Array.isArray(entry) ? entry[at] : undefined;
  return typeof value === 'number' ? value : -9999;
}

function countOf(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}
