import { type KvRouterConfig, type MissingIslLimit, QUEUE_THRESHOLD, type QueuePolicy } from '../kv-config.ts';

/** One class of waiting requests. An undefined bound does not apply. */
export interface PolicyClass {
  readonly name: string;
  /** Order of the class; `auto` follows the cost model. */
  readonly policy: QueuePolicy | 'auto';
  /** Uncached tokens that the class may send in one round over the classes. */
  readonly quantumTokens: number;
  /** Active prefill tokens above which a worker is full for the class. */
  readonly busyTokens: number | undefined;
  /**
   * Multiple of the worker's batched tokens above which a worker is full for the class. Without either bound no request
   * waits in the class.
   */
  readonly busyFraction: number | undefined;
  /** Share of the eligible ranks that must be full before requests wait. @default 1 */
  readonly busyShare: number;
  /**
   * Whether someone set the bounds above. Then they hold under every cost model. Otherwise they are Dynamo's, which
   * `stator` replaces with its own rule.
   */
  readonly hasOwnBounds: boolean;
  readonly requestsPerWorkerMax: number | undefined;
  readonly promptTokensPerWorkerMax: number | undefined;
  readonly cachedTokensPerWorkerMax: number | undefined;
}

/** Queue classes of one model, and the rule by which requests find theirs. */
export interface PolicyProfile {
  readonly classes: readonly PolicyClass[];
  /**
   * Returns the class that a request names. Otherwise returns the class of its family for the prompt tokens that no
   * worker has cached.
   */
  classOf(asked: string | undefined, uncachedTokens: () => number): number;
  /** Limits by uncached tokens (the older table), in addition to the classes' own. */
  readonly missingIslLimits: readonly MissingIslLimit[];
}

/**
 * Contents of `--router-policy-config`: profiles by model, one for all other models, and settings that override flags.
 */
export interface PolicyConfig {
  readonly root: PolicyProfile | undefined;
  readonly models: ReadonlyMap<string, PolicyProfile>;
  readonly settings: Partial<KvRouterConfig>;
}

/** Returns the profile without classes: one class for all requests, with the router's own settings. */
export function singleClass(config: KvRouterConfig): PolicyProfile {
  const hasOwnBounds = config.queueThreshold !== 'auto';
  const only: PolicyClass = {
    name: 'default',
    policy: config.queuePolicy,
    quantumTokens: 1,
    busyTokens: undefined,
    busyFraction: config.queueThreshold === 'auto' ? QUEUE_THRESHOLD : config.queueThreshold,
    busyShare: 1,
    hasOwnBounds,
    requestsPerWorkerMax: undefined,
    promptTokensPerWorkerMax: undefined,
    cachedTokensPerWorkerMax: undefined,
  };
  return { classes: [only], classOf: () => 0, missingIslLimits: config.queueByIncomingMissingIsl };
}

/** Returns the profile of a model: its own, the common one, or a single class. */
export function profileFor(policies: PolicyConfig | undefined, model: string, config: KvRouterConfig): PolicyProfile {
  return policies?.models.get(model) ?? policies?.root ?? singleClass(config);
}

/** Whether requests of the class can ever wait. */
export function canWait({ busyTokens, busyFraction }: PolicyClass): boolean {
  return busyTokens !== undefined || busyFraction !== undefined;
}

/** Whether a worker with this number of active prefill tokens is full for the class: strictly above either bound. */
export function isFull(
  { busyTokens, busyFraction }: PolicyClass,
  activeTokens: number,
  batchedTokens: number,
): boolean {
  if (busyTokens !== undefined && activeTokens > busyTokens) return true;
  return busyFraction !== undefined && activeTokens > busyFraction * batchedTokens;
}
