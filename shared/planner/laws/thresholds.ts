import type { PlannerConfig } from '../config.ts';
import type { ForwardPass } from '../forward-pass/metrics.ts';
import type { EngineCapabilities, LoadReason, Pool } from '../types.ts';

/** What a loop wants of a pool, and why. */
export interface PoolWish {
  readonly count: number;
  readonly reason: LoadReason;
}

interface Threshold {
  readonly up: number;
  readonly down: number;
  readonly isUpInclusive: boolean;
  readonly isDownInclusive: boolean;
}

/**
 * One more worker when any engine is above a threshold, one less when all are below the lower one and would stay below the
 * upper with one worker less.
 */
export function byThresholds(
  pool: Pool,
  workers: number,
  passes: readonly ForwardPass[],
  engine: EngineCapabilities | undefined,
  config: PlannerConfig,
  endpointsMin: number,
): PoolWish {
  const values = passes.map((pass) => loadOf(pool, pass, engine, config));
  if (values.length === 0 || workers === 0 || values.some((value) => value === undefined)) {
    return { count: workers, reason: 'insufficient_data' };
  }
  const { up, down, isUpInclusive, isDownInclusive } = thresholdOf(pool, config);
  const most = Math.max(...(values as readonly number[]));
  if (isUpInclusive ? most >= up : most > up) return { count: workers + 1, reason: 'scale_up' };
  const isIdle = isDownInclusive ? most <= down : most < down;
  const fewer = Math.max(workers - 1, endpointsMin);
  if (!isIdle || workers <= 1 || fewer >= workers || (most * workers) / fewer >= up) {
    return { count: workers, reason: 'no_change' };
  }
  return { count: fewer, reason: 'scale_down' };
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
        ? [config.prefill_scale_up_queue_tokens, config.prefill_scale_down_queue_tokens]
        : [(config.decode_scale_up_kv_rate ?? 0) / 100, (config.decode_scale_down_kv_rate ?? 0) / 100];
    return { up: up ?? 0, down: down ?? 0, isUpInclusive: true, isDownInclusive: true };
  }
  const isTight = config.law === 'latency';
  if (pool === 'prefill') {
    return { up: isTight ? 0.1 : 1, down: isTight ? 0 : 0.1, isUpInclusive: true, isDownInclusive: isTight };
  }
  return { up: isTight ? 0.4 : 1, down: isTight ? 0.1 : 0.6, isUpInclusive: false, isDownInclusive: false };
}
