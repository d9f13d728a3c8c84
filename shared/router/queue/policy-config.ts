import type { QueuePolicy } from '../kv-config.ts';

/** One class of waiting requests (router.md, section 6.4). */
export interface PolicyClass {
  readonly name: string;
  readonly policy: QueuePolicy;
  /** Uncached tokens that the class may send in one round. */
  readonly quantumTokens: number;
  /** Active prefill tokens above which a worker is busy for the class. */
  readonly busyTokens: number | undefined;
  /** The same as a multiple of the worker's batched tokens. */
  readonly busyFraction: number | undefined;
  readonly requestsPerWorkerMax: number | undefined;
  readonly promptTokensPerWorkerMax: number | undefined;
  readonly cachedTokensPerWorkerMax: number | undefined;
}

export interface PolicyConfig {
  readonly classes: readonly PolicyClass[];
}
