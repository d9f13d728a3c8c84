import type { ForwardPass } from './forward-pass/metrics.ts';

export const POOLS = ['prefill', 'decode'] as const;
/** The workers of an aggregated fleet count as decode. */
export type Pool = (typeof POOLS)[number];
export type PerPool<T> = Readonly<Partial<Record<Pool, T>>>;

/** Reads one value of each of the two pools. */
export function eachPool<T>(read: (pool: Pool) => T): Readonly<Record<Pool, T>> {
  return { prefill: read('prefill'), decode: read('decode') };
}

/** Facts and limits of one engine of a pool, as its workers stated when they registered. */
export interface EngineCapabilities {
  /** GPUs of an engine. */
  readonly gpus: number;
  readonly maxNumBatchedTokens?: number | undefined;
  readonly maxNumSeqs?: number | undefined;
  /** Tokens of prompt and output together. */
  readonly contextLength?: number | undefined;
  readonly maxKvTokens?: number | undefined;
  readonly wattsPerReplica?: number | undefined;
}

/** Traffic of a past window. Lengths are in tokens, means over its requests. */
export interface TrafficWindow {
  readonly seconds: number;
  /** Requests that began, without those that a migration or a retry began again. */
  readonly requests: number;
  readonly isl: number;
  readonly osl: number;
  /** Hit rate of prompts, from 0 to 1; undefined if unknown, which is not 0. */
  readonly kvHitRate?: number | undefined;
  /** Tokens that a pass yields for a sequence, with speculative decoding. */
  readonly acceptLength?: number | undefined;
}

/** Workers of a pool. */
export interface PoolCounts {
  /** Serving. */
  readonly ready: number;
  /** The last decided number, as far as the environment says. */
  readonly expected?: number | undefined;
  /** Being started. */
  readonly starting?: number | undefined;
  /** Workers being started while none is being stopped: these starts may still be cancelled. */
  readonly pending?: number | undefined;
  readonly isScaling?: boolean | undefined;
}

/** Input of a planner at a tick. */
export interface TickInput {
  /** Seconds of the planner's own time. */
  readonly nowS: number;
  readonly counts: PerPool<PoolCounts>;
  /** The last pass of each rank of each engine. */
  readonly passes?: PerPool<readonly ForwardPass[]>;
  readonly traffic?: TrafficWindow | undefined;
}

/** Targets of the pools; a pool that is left out stays as it is. */
export type Targets = PerPool<number>;

/** Reasons of the load loop, in words. */
export const LOAD_REASONS = {
  disabled: 'the load loop is off',
  no_fpm_data: 'no engine has reported its passes',
  scaling_in_progress: 'an earlier decision is still being carried out',
  worker_count_mismatch: 'other workers report than are ready',
  insufficient_data: 'too few passes are known to tell how long they take',
  no_change: 'the load is between its thresholds',
  scale_up: 'the load is above its threshold',
  scale_down: 'the load would stay below its threshold with one worker less',
  scale_down_capped_by_throughput: 'one worker less would do now, but not for the traffic that is expected',
  scale_down_refused_consolidation: 'one worker less would bring the others too near to their targets',
  gpu_budget_guard_hold: 'the GPU budget leaves no room for the change',
  gpu_budget_reconcile: 'the pools are outside the GPU budget and are brought back into it',
} as const;
export type LoadReason = keyof typeof LOAD_REASONS;

/** Reasons of the throughput loop, in words. */
export const THROUGHPUT_REASONS = {
  no_traffic_data: 'no traffic was measured',
  model_not_ready: 'too few passes are known to tell what an engine serves',
  partner_not_ready: 'too few passes are known to tell what an engine of the other pool serves',
  set_lower_bound: 'the expected traffic sets the least number of workers',
  scale: 'the expected traffic needs another number of workers',
  no_change: 'the expected traffic needs as many workers as there are',
  gpu_budget_guard_hold: 'the GPU budget leaves no room for what the expected traffic needs',
  gpu_budget_reconcile: 'the pools are outside the GPU budget and are brought back into it',
} as const;
export type ThroughputReason = keyof typeof THROUGHPUT_REASONS;
