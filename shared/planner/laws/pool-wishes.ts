import type { PlannerConfig } from '../config.ts';
import { type EngineLimits, estimateItlMs, estimateTtftMs } from '../forward-pass/estimates.ts';
import type { ForwardPass } from '../forward-pass/metrics.ts';
import type { PassModel } from '../forward-pass/model.ts';
import type { EngineCapabilities, LoadReason, Pool } from '../types.ts';

/** Input of the estimates of a pool. */
export interface LatencyView {
  readonly workers: number;
  /** Workers that are being started, and may still be cancelled. */
  readonly pending: number;
  readonly passes: readonly ForwardPass[];
  readonly model: PassModel;
  readonly limits: EngineLimits;
  readonly config: PlannerConfig;
  readonly kvHitRate: number | undefined;
  readonly acceptLength: number;
  readonly endpointsMin: number;
}

/** Wish for a pool, and the worst estimate of its engines in milliseconds. */
interface LatencyWish {
  readonly wish: PoolWish;
  readonly estimatedMs: number | undefined;
}

/**
 * Asks for one worker more if every engine is above the target, for one less if each of the rest would stay well below
 * it.
 */
export function byTtft(view: LatencyView): LatencyWish {
  const { passes, model, limits, config, kvHitRate } = view;
  const estimates = passes.map((pass) => estimateTtftMs(model, limits, pass, { kvHitRate }));
  const fits = (pass: ForwardPass, share: number): boolean | undefined => {
    const isAggregated = config.mode === 'agg';
    const decode = isAggregated ? { decodeScale: share, withQueuedDecode: true } : {};
    const own = estimateTtftMs(model, limits, pass, { kvHitRate, queueScale: 0, ...decode });
    const loaded = estimateTtftMs(model, limits, pass, { kvHitRate, queueScale: share, ...decode });
    if (own === undefined) return undefined;
    const room = (config.ttftMs - own) * (config.loadScalingDownSensitivity / 100);
    if (room <= 0 && !(isAggregated && loaded === undefined)) return false;
    return loaded === undefined ? undefined : loaded - own < room;
  };
  return decide(view, estimates, config.ttftMs, fits);
}

/** Does the same for the time between tokens. */
export function byItl(view: LatencyView): LatencyWish {
  const { passes, model, limits, config, acceptLength } = view;
  const isAggregated = config.mode === 'agg';
  const itl = (pass: ForwardPass, options: Parameters<typeof estimateItlMs>[3]): number | undefined => {
    const ms = estimateItlMs(model, isAggregated, pass, options);
    return ms === undefined ? undefined : ms / acceptLength;
  };
  const estimates = passes.map((pass) => itl(pass, {}));
  const fits = (pass: ForwardPass, share: number): boolean | undefined => {
    const waiting = isAggregated ? pass.queuedPrefillTokens : 0;
    const kvTokens = Math.trunc((pass.decodeKvTokens + pass.queuedDecodeKvTokens + waiting) * share);
    if (kvTokens >= limits.maxKvTokens) return false;
    const loaded = itl(pass, { decodeScale: share, withQueuedPrefill: isAggregated });
    if (loaded === undefined) return undefined;
    return loaded < config.itlMs * (config.loadScalingDownSensitivity / 100);
  };
  return decide(view, estimates, config.itlMs, fits);
}

function decide(
  { workers, pending, passes, endpointsMin }: LatencyView,
  estimates: readonly (number | undefined)[],
  targetMs: number,
  /** Returns whether an engine holds its target at a multiple of its load; undefined if the model has no answer. */
  fits: (pass: ForwardPass, share: number) => boolean | undefined,
): LatencyWish {
  const known = estimates.filter((estimate) => estimate !== undefined);
  const estimatedMs = known.length === 0 ? undefined : Math.max(...known);
  const share = workers > 1 ? workers / (workers - 1) : 1;
  // The first engine that would not hold its target, or for which that is unknown, decides.
  const isAsked = workers > 1 || pending > 0;
  const obstacle = isAsked ? passes.map((pass) => fits(pass, share)).find((isFit) => isFit !== true) : undefined;
  const isRoomy = isAsked && passes.every((pass) => fits(pass, share) === true);
  const stay = (reason: PoolWish['reason']): LatencyWish => {
    const isRefused = isAsked && !isRoomy && obstacle === false;
    return { wish: { reason: isRefused ? 'scale_down_refused_consolidation' : reason }, estimatedMs };
  };
  if (known.length === 0) return stay('insufficient_data');
  if (known.every((estimate) => estimate > targetMs)) return { wish: { count: workers + 1 }, estimatedMs };
  if (isRoomy) return { wish: { count: Math.max(workers - 1, endpointsMin) }, estimatedMs };
  return stay('no_change');
}

/** Wish of a loop for a pool: a number of workers, or the reason for none. */
export interface PoolWish {
  readonly count?: number | undefined;
  readonly reason?: LoadReason | undefined;
}

interface Threshold {
  readonly up: number;
  readonly down: number;
  readonly isUpInclusive: boolean;
  readonly isDownInclusive: boolean;
}

/**
 * Asks for one worker more if any engine is above the upper threshold. Asks for one less if all are below the lower one
 * and would stay below the upper one.
 */
export function byThresholds(
  pool: Pool,
  {
    workers,
    pending,
    passes,
    config,
    endpointsMin,
  }: Omit<LatencyView, 'model' | 'limits' | 'kvHitRate' | 'acceptLength'>,
  engine: EngineCapabilities | undefined,
): PoolWish {
  const values = passes.map((pass) => loadOf(pool, pass, engine, config));
  if (values.length === 0 || workers === 0 || values.some((value) => value === undefined)) {
    return { reason: 'insufficient_data' };
  }
  const { up, down, isUpInclusive, isDownInclusive } = thresholdOf(pool, config);
  const most = Math.max(...(values as readonly number[]));
  if (isUpInclusive ? most >= up : most > up) return { count: workers + 1 };
  const isIdle = isDownInclusive ? most <= down : most < down;
  if (!isIdle || (workers <= 1 && pending === 0)) return { reason: 'no_change' };
  const fewer = Math.max(workers - 1, endpointsMin);
  const isTooFew = fewer > 0 && fewer < workers && (most * workers) / fewer >= up;
  return { count: isTooFew ? workers : fewer };
}

function loadOf(
  pool: Pool,
  pass: ForwardPass,
  engine: EngineCapabilities | undefined,
  { law, mode }: PlannerConfig,
): number | undefined {
  if (pool === 'prefill') {
    if (law === 'load') return pass.queuedPrefillTokens;
    return engine?.contextLength ? pass.queuedPrefillTokens / engine.contextLength : undefined;
  }
  const waiting = mode === 'agg' ? pass.queuedPrefillTokens : 0;
  return engine?.maxKvTokens
    ? (pass.decodeKvTokens + pass.queuedDecodeKvTokens + waiting) / engine.maxKvTokens
    : undefined;
}

function thresholdOf(pool: Pool, config: PlannerConfig): Threshold {
  if (config.law === 'load') {
    const [up, down] =
      pool === 'prefill'
        ? [config.prefillScaleUpQueueTokens, config.prefillScaleDownQueueTokens]
        : [(config.decodeScaleUpKvRate ?? 0) / 100, (config.decodeScaleDownKvRate ?? 0) / 100];
    return { up: up ?? 0, down: down ?? 0, isUpInclusive: true, isDownInclusive: true };
  }
  const isTight = config.law === 'latency';
  if (pool === 'prefill') {
    return { up: isTight ? 0.1 : 1, down: isTight ? 0 : 0.1, isUpInclusive: true, isDownInclusive: isTight };
  }
  return { up: isTight ? 0.4 : 1, down: isTight ? 0.1 : 0.6, isUpInclusive: false, isDownInclusive: false };
}
