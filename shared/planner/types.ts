import type { ForwardPass } from './forward-pass/metrics.ts';

export const POOLS = ['prefill', 'decode'] as const;
/** The workers of an aggregated fleet count as decode. */
export type Pool = (typeof POOLS)[number];
export type PerPool<T> = Readonly<Partial<Record<Pool, T>>>;

/** What one engine of a pool is and takes, as its workers said when they registered. */
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

/** Traffic of a window that has passed. Lengths in tokens, means over its requests. */
export interface TrafficWindow {
  readonly seconds: number;
  /** Requests that began; those that a migration or a retry began again do not count. */
  readonly requests: number;
  readonly isl: number;
  readonly osl: number;
  /** Of prompts, from 0 to 1; unknown is not 0. */
  readonly kvHitRate?: number | undefined;
  /** Tokens that a pass yields for a sequence, with speculative decoding. */
  readonly acceptLength?: number | undefined;
}

/** Workers of a pool. */
export interface PoolCounts {
  /** Serving. */
  readonly ready: number;
  /** What was decided last, as far as the environment says. */
  readonly expected?: number | undefined;
  /** Being started, where nothing is being stopped: they may still be cancelled. */
  readonly pending?: number | undefined;
  readonly isScaling?: boolean | undefined;
}

/** What a planner is told at a tick. */
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

export const LOAD_REASONS = [
  'disabled',
  'no_fpm_data',
  'scaling_in_progress',
  'worker_count_mismatch',
  'insufficient_data',
  'no_change',
  'scale_up',
  'scale_down',
  'scale_down_capped_by_throughput',
  'scale_down_refused_consolidation',
  'gpu_budget_guard_hold',
  'gpu_budget_reconcile',
] as const;
export type LoadReason = (typeof LOAD_REASONS)[number];

export const THROUGHPUT_REASONS = [
  'no_traffic_data',
  'model_not_ready',
  'partner_not_ready',
  'set_lower_bound',
  'scale',
  'no_change',
  'gpu_budget_guard_hold',
  'gpu_budget_reconcile',
] as const;
export type ThroughputReason = (typeof THROUGHPUT_REASONS)[number];
