import { chunkedMs, computedShare, type EngineLimits } from './estimates.ts';
import type { PoolKind } from './metrics.ts';
import type { PassModel } from './model.ts';

/** The demand that one engine is to serve, and what it is to hold. */
export interface CapacityQuery {
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

/** What one engine serves at the best batch size. */
export interface Capacity {
  readonly requestsPerSecond: number;
  readonly batch: number;
  readonly ttftMs: number | undefined;
  readonly itlMs: number | undefined;
  /** Within everything that was asked for; else the most that it serves at all. */
  readonly isWithinSla: boolean;
}

const BATCHES_TRIED = 128;

/** Batches from 1 to `most`, or so many of them spread evenly. */
function batchesTo(most: number): readonly number[] {
  if (most <= BATCHES_TRIED) return Array.from({ length: Math.max(0, most) }, (_, at) => at + 1);
  return Array.from({ length: BATCHES_TRIED }, (_, at) => 1 + Math.floor((at * (most - 1)) / (BATCHES_TRIED - 1)));
}

/** Undefined where the model has no answer, or no request fits. */
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
