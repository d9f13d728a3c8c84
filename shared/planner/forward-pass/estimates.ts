import type { ForwardPass, PassLoad, PoolKind } from './metrics.ts';
import type { PassModel } from './model.ts';

/** Limits of an engine, as its worker stated when it registered. */
export interface EngineLimits {
  readonly maxNumBatchedTokens: number;
  readonly maxNumSeqs: number;
  readonly maxKvTokens: number;
}

/** Limits of an engine whose worker stated none. */
export const ENGINE_LIMITS: EngineLimits = { maxNumBatchedTokens: 8192, maxNumSeqs: 512, maxKvTokens: 2_000_000 };

const HIT_RATE_MAX = 0.95;

/** Returns the share of the prompt that is computed. An unknown hit rate discounts nothing. */
function computedShare(kvHitRate: number | undefined): number {
  return 1 - Math.min(HIT_RATE_MAX, Math.max(0, kvHitRate ?? 0));
}

interface EstimateOptions {
  readonly kvHitRate?: number | undefined;
  /** Factor on the waiting work. @default 1 */
  readonly queueScale?: number;
  /** Factor on the decoding work. @default 1 */
  readonly decodeScale?: number;
  /** Preempted requests count as decoding. */
  readonly withQueuedDecode?: boolean;
  /** Waiting prompts count as holding KV. */
  readonly withQueuedPrefill?: boolean;
}

/**
 * Returns the milliseconds to the first token of the next request at an engine in this state. The engine computes all
 * waiting prompts and this one in chunks; in an aggregated pool it decodes beside them.
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

/** Returns the chunks of the prompts: full ones and a tail, a pass each. */
function chunkedMs(
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

/** Returns the milliseconds between two tokens at an engine in this state with one more request. */
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

/** Demand on one engine, and the targets that it must hold. */
interface CapacityQuery {
  /** Tokens of a prompt. */
  readonly isl: number;
  /** Tokens of an output. */
  readonly osl: number;
  readonly ttftSlaMs?: number | undefined;
  readonly itlSlaMs?: number | undefined;
  readonly kvHitRate?: number | undefined;
  /** Tokens that a pass yields for each sequence, with speculative decoding. @default 1 */
  readonly acceptLength?: number | undefined;
}

/** Capacity of one engine at the best batch size. */
interface Capacity {
  readonly requestsPerSecond: number;
  /** The batch size, for tests. */
  readonly batch: number;
  /** Time to the first token at that size, for tests. */
  readonly ttftMs: number | undefined;
  /** Time between two tokens at that size, for tests. */
  readonly itlMs: number | undefined;
  /** Capacity within all targets; if no size meets them, the largest capacity of any size. */
  readonly isWithinSla: boolean;
}

const BATCHES_TRIED = 128;

/** Returns batches from 1 to `most`, or an even sample of them. */
function batchesTo(most: number): readonly number[] {
  if (most <= BATCHES_TRIED) return Array.from({ length: Math.max(0, most) }, (_, at) => at + 1);
  return Array.from({ length: BATCHES_TRIED }, (_, at) => 1 + Math.floor((at * (most - 1)) / (BATCHES_TRIED - 1)));
}

/** Returns the capacity of an engine; undefined if the model has no answer or no request fits. */
export function capacityOf(
  kind: PoolKind,
  model: PassModel,
  limits: EngineLimits,
  query: CapacityQuery,
): Capacity | undefined {
  const sized = { ...query, isl: Math.ceil(query.isl), osl: Math.ceil(query.osl) };
  const tried = batchesOf(kind, limits, sized)
    .map((batch) => tryBatch(kind, model, limits, sized, batch))
    .filter((capacity) => capacity !== undefined);
  const within = tried.filter(({ isWithinSla }) => isWithinSla);
  const candidates = within.length > 0 ? within : tried;
  return candidates.reduce<Capacity | undefined>(
    (best, each) => (best === undefined || each.requestsPerSecond > best.requestsPerSecond ? each : best),
    undefined,
  );
}

function contextOf({ isl, osl }: CapacityQuery): number {
  return isl + Math.floor(osl / 2);
}

function newTokensOf({ isl, kvHitRate }: CapacityQuery): number {
  return Math.ceil(isl * computedShare(kvHitRate));
}

function batchesOf(kind: PoolKind, limits: EngineLimits, query: CapacityQuery): readonly number[] {
  if (kind === 'prefill') {
    const tokens = newTokensOf(query);
    const fits = tokens > limits.maxNumBatchedTokens ? 1 : Math.floor(limits.maxNumBatchedTokens / Math.max(1, tokens));
    return batchesTo(Math.min(limits.maxNumSeqs, fits));
  }
  const fits = Math.min(limits.maxNumSeqs, Math.floor(limits.maxKvTokens / Math.max(1, contextOf(query))));
  return batchesTo(kind === 'decode' ? fits : Math.min(fits, limits.maxNumBatchedTokens - 1));
}

function tryBatch(
  kind: PoolKind,
  model: PassModel,
  limits: EngineLimits,
  query: CapacityQuery,
  batch: number,
): Capacity | undefined {
  const { osl, ttftSlaMs, itlSlaMs, acceptLength = 1 } = query;
  const newTokens = newTokensOf(query);
  if (kind === 'prefill') {
    const ttftMs = chunkedMs(model, newTokens * batch, 1, limits.maxNumBatchedTokens);
    if (ttftMs === undefined || ttftMs <= 0) return undefined;
    const isWithinSla = ttftSlaMs === undefined || ttftMs <= ttftSlaMs;
    return { requestsPerSecond: (1000 * batch) / ttftMs, batch, ttftMs, itlMs: undefined, isWithinSla };
  }
  const decode = { decodeRequests: batch, decodeKvTokens: batch * contextOf(query) };
  const beside = kind === 'decode' ? 0 : (batch * acceptLength * newTokens) / osl;
  if (kind === 'aggregated' && beside > limits.maxNumBatchedTokens - batch) return undefined;
  const prefillTokens = Math.ceil(beside);
  const passMs = model.passMs({ ...decode, ...(kind === 'aggregated' && { prefillTokens, prefillRequests: 1 }) });
  if (passMs === undefined) return undefined;
  const itlMs = passMs / acceptLength;
  const ttftMs =
    kind === 'decode'
      ? undefined
      : chunkedMs(model, Math.ceil(beside + newTokens), 1, limits.maxNumBatchedTokens, decode);
  if (kind === 'aggregated' && ttftMs === undefined) return undefined;
  const isWithinSla =
    (itlSlaMs === undefined || itlMs <= itlSlaMs) &&
    (ttftSlaMs === undefined || ttftMs === undefined || ttftMs <= ttftSlaMs);
  return { requestsPerSecond: (1000 * batch) / (osl * itlMs), batch, ttftMs, itlMs, isWithinSla };
}
