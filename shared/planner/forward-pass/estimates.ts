import type { ForwardPass, PassLoad } from './metrics.ts';
import type { PassModel } from './model.ts';

/** What an engine can take, as its worker said when it registered. */
export interface EngineLimits {
  readonly maxNumBatchedTokens: number;
  readonly maxNumSeqs: number;
  readonly maxKvTokens: number;
}

/** Where a worker did not say. */
export const ENGINE_LIMITS: EngineLimits = { maxNumBatchedTokens: 8192, maxNumSeqs: 512, maxKvTokens: 2_000_000 };

const HIT_RATE_MAX = 0.95;

/** Share of the prompt that is computed: an unknown hit rate discounts nothing. */
export function computedShare(kvHitRate: number | undefined): number {
  return 1 - Math.min(HIT_RATE_MAX, Math.max(0, kvHitRate ?? 0));
}

export interface EstimateOptions {
  readonly kvHitRate?: number | undefined;
  /** Of what waits, as if that many times as much did. @default 1 */
  readonly queueScale?: number;
  /** Of what decodes. @default 1 */
  readonly decodeScale?: number;
  /** Requests that were preempted decode as well. */
  readonly withQueuedDecode?: boolean;
  /** Prompts that wait hold KV as well. */
  readonly withQueuedPrefill?: boolean;
}

/**
 * Milliseconds to the first token of the next request at an engine in this state: all that waits and the request are computed
 * in chunks, beside what decodes in an aggregated pool.
 */
export function estimateTtftMs(
  model: PassModel,
  limits: EngineLimits,
  engine: ForwardPass,
  options: EstimateOptions = {},
): number | undefined {
  const { queueScale = 1, decodeScale = 1, withQueuedDecode = false } = options;
  const tokens = Math.ceil(
    (engine.queuedPrefillTokens * queueScale + model.averages.isl) * computedShare(options.kvHitRate),
  );
  const requests = Math.ceil(engine.queuedPrefillRequests * queueScale + 1);
  const decode = decodeLoad(engine, decodeScale, withQueuedDecode);
  return chunkedMs(model, tokens, requests, limits.maxNumBatchedTokens, decode);
}

function decodeLoad(engine: ForwardPass, scale: number, withQueued: boolean): Partial<PassLoad> {
  const requests = engine.decodeRequests + (withQueued ? engine.queuedDecodeRequests : 0);
  const kvTokens = engine.decodeKvTokens + (withQueued ? engine.queuedDecodeKvTokens : 0);
  return { decodeRequests: Math.ceil(requests * scale), decodeKvTokens: Math.ceil(kvTokens * scale) };
}

/** Full chunks and a tail, a pass each. */
export function chunkedMs(
  model: PassModel,
  tokens: number,
  requests: number,
  chunkTokens: number,
  decode: Partial<PassLoad> = {},
): number | undefined {
  const fullChunks = Math.floor(tokens / chunkTokens);
  const tail = tokens % chunkTokens;
  let ms = 0;
  for (const [count, prefillTokens] of [
    [fullChunks, chunkTokens],
    [1, tail],
  ] as const) {
    if (count === 0 || prefillTokens === 0) continue;
    const pass = model.passMs({ ...decode, prefillRequests: requests, prefillTokens });
    if (pass === undefined) return undefined;
    ms += count * pass;
  }
  return ms;
}

/** Milliseconds between two tokens at an engine in this state with one more request. */
export function estimateItlMs(
  model: PassModel,
  isAggregated: boolean,
  engine: ForwardPass,
  options: EstimateOptions = {},
): number | undefined {
  const { decodeScale = 1, withQueuedPrefill = false } = options;
  const { averages } = model;
  const waiting = withQueuedPrefill ? engine : { queuedPrefillRequests: 0, queuedPrefillTokens: 0 };
  const requests = engine.decodeRequests + engine.queuedDecodeRequests + waiting.queuedPrefillRequests;
  const heldTokens = engine.decodeKvTokens + engine.queuedDecodeKvTokens + waiting.queuedPrefillTokens;
  const decode = {
    decodeRequests: Math.ceil(requests * decodeScale + 1),
    decodeKvTokens: Math.ceil(heldTokens * decodeScale + averages.decodeLength),
  };
  if (!isAggregated) return model.passMs(decode);
  return model.passMs({
    ...decode,
    prefillTokens: Math.ceil(averages.prefillTokens),
    prefillRequests: Math.ceil(averages.prefillRequests),
  });
}
