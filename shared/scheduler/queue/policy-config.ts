import { type KvRouterConfig, type MissingIslLimit, QUEUE_THRESHOLD, type QueuePolicy } from '../kv-config.ts';

/** One class of waiting requests. Undefined = no such bound. */
export interface PolicyClass {
  readonly name: string;
  /** `auto` = as the cost model has it. */
  readonly policy: QueuePolicy | 'auto';
  /** Uncached tokens that the class may send in one round of the classes. */
  readonly quantumTokens: number;
  /** Active prefill tokens above which a worker is full for the class. */
  readonly busyTokens: number | undefined;
  /** The same as a multiple of the worker's batched tokens. Without either nobody waits in the class. */
  readonly busyFraction: number | undefined;
  /** Share of the eligible ranks that must be full before requests wait. @default 1 */
  readonly busyShare: number;
  /**
   * Somebody set the bounds above: they hold under every cost model. Otherwise they are Dynamo's, in whose place
   * `stator` has a gate of its own.
   */
  readonly hasOwnBounds: boolean;
  readonly requestsPerWorkerMax: number | undefined;
  readonly promptTokensPerWorkerMax: number | undefined;
  readonly cachedTokensPerWorkerMax: number | undefined;
}

/** The queue classes of one model and how requests find theirs. */
export interface PolicyProfile {
  readonly classes: readonly PolicyClass[];
  /** Class that a request names, or that its family has for what of its prompt nobody has cached. */
  classOf(asked: string | undefined, uncachedTokens: () => number): number;
  /** Limits by uncached tokens (the older table), on top of the classes' own. */
  readonly missingIslLimits: readonly MissingIslLimit[];
}

/** What `--router-policy-config` says: profiles by model, the one for all others, and settings over the flags. */
export interface PolicyConfig {
  readonly root: PolicyProfile | undefined;
  readonly models: ReadonlyMap<string, PolicyProfile>;
  readonly settings: Partial<KvRouterConfig>;
}

/** Without classes: one for all requests, as the router's own settings say. */
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

/** The profile of a model: its own, the common one, or a single class. */
export function profileFor(policies: PolicyConfig | undefined, model: string, config: KvRouterConfig): PolicyProfile {
  return policies?.models.get(model) ?? policies?.root ?? singleClass(config);
}

/** Whether anything in the class can ever wait. */
export function canWait({ busyTokens, busyFraction }: PolicyClass): boolean {
  return busyTokens !== undefined || busyFraction !== undefined;
}

/** Whether a worker with so many active prefill tokens is full for the class: strictly above either bound. */
export function isFull(
  { busyTokens, busyFraction }: PolicyClass,
  activeTokens: number,
  batchedTokens: number,
): boolean {
  if (busyTokens !== undefined && activeTokens > busyTokens) return true;
  return busyFraction !== undefined && activeTokens > busyFraction * batchedTokens;
}
