/** Settings of a router in mode `kv`. Blocks and tokens, times in milliseconds. */
export interface KvRouterConfig {
  /** Formula of the cost: Dynamo's or Stator's. */
  readonly costModel: 'dynamo' | 'stator';
  /** Credit for a block on the device. 0 = the router has no index. */
  readonly overlapScoreCredit: number;
  /** Rate at which that credit shrinks as a worker's prefill load exceeds the least loaded worker's. */
  readonly overlapScoreCreditDecay: number;
  /** Weight of the blocks to prefill relative to the blocks to decode. */
  readonly prefillLoadScale: number;
  /** Cost of each active request, in blocks. */
  readonly decodeActiveRequestWeight: number;
  readonly hostCacheHitWeight: number;
  readonly diskCacheHitWeight: number;
  readonly sharedCacheMultiplier: number;
  /** Temperature of the softmax over normalised costs; 0 = the lowest cost always wins. */
  readonly routerTemperature: number;
  /** Choice among equally cheap workers: any of them, or the one whose caches hold the fewest blocks (release 1.0). */
  readonly tieBreak: 'random' | 'fewest-blocks';
  /** Whether the index follows the workers' events; if off, the router predicts it from decisions. */
  readonly useKvEvents: boolean;
  /** Life of predicted blocks if KV events are off. */
  readonly ttlMs: number;
  readonly approximateCachePolicy: 'ttl' | 'lru';
  /** Life of entries predicted in addition to the events; undefined = off. */
  readonly predictedTtlMs: number | undefined;
  readonly useRemoteIndexer: boolean;
  readonly serveIndexer: boolean;
  readonly trackActiveBlocks: boolean;
  readonly trackOutputBlocks: boolean;
  /** Whether running requests share the blocks of a common prefix. */
  readonly assumeKvReuse: boolean;
  readonly trackPrefillTokens: boolean;
  readonly prefillLoadModel: 'none' | 'aic';
  /**
   * Multiple of a worker's batched tokens above which requests wait; undefined = no request ever waits. `auto` follows
   * the cost model: 16 with `dynamo`, and with `stator` the rule of `RequestQueue`.
   */
  readonly queueThreshold: number | 'auto' | undefined;
  /**
   * Order of the queue. `auto` follows the cost model: `fcfs` with `dynamo`, and with `stator` the least left to
   * compute.
   */
  readonly queuePolicy: QueuePolicy | 'auto';
  /** Limits by the prompt tokens that no worker has cached; empty = no such limit. */
  readonly queueByIncomingMissingIsl: readonly MissingIslLimit[];
  /** Number of requests that may wait in all; the router refuses any more. */
  readonly queuedRequestsMax: number;
  /** Waiting time after which the router looks up the overlap of a request again; 0 = never. */
  readonly overlapRefreshAfterMs: number;
  /** Age at which a request that was never freed is freed. */
  readonly activeRequestExpiryMs: number;
}

export type QueuePolicy = 'fcfs' | 'lcfs' | 'wspt';

/** Value of `auto` for a cost model that has no rule of its own. */
export const QUEUE_THRESHOLD = 16;

export interface MissingIslLimit {
  readonly missingTokensFloor: number;
  /** Bound of the waiting prompt tokens, for each worker. */
  readonly tokensPerWorkerMax: number;
}

export const defaultKvRouterConfig: KvRouterConfig = {
  costModel: 'dynamo',
  overlapScoreCredit: 1,
  overlapScoreCreditDecay: 0,
  prefillLoadScale: 1,
  decodeActiveRequestWeight: 0,
  hostCacheHitWeight: 0.75,
  diskCacheHitWeight: 0.25,
  sharedCacheMultiplier: 0,
  routerTemperature: 0,
  tieBreak: 'random',
  useKvEvents: true,
  ttlMs: 120_000,
  approximateCachePolicy: 'ttl',
  predictedTtlMs: undefined,
  useRemoteIndexer: false,
  serveIndexer: false,
  trackActiveBlocks: true,
  trackOutputBlocks: false,
  assumeKvReuse: true,
  trackPrefillTokens: true,
  prefillLoadModel: 'none',
  queueThreshold: 'auto',
  queuePolicy: 'auto',
  queueByIncomingMissingIsl: [],
  queuedRequestsMax: 65_536,
  overlapRefreshAfterMs: 10_000,
  activeRequestExpiryMs: 300_000,
};

/** Error for a configuration that contradicts itself. Its message names the fields as an operator writes them. */
export class KvRouterConfigError extends Error {
  override readonly name = 'KvRouterConfigError';
  readonly field: string;

  constructor(field: string, message: string) {
    super(message);
    this.field = field;
  }
}

/**
 * Returns the defaults with `given` on top of them.
 * @throws KvRouterConfigError for a value out of range or two fields that exclude each other
 */
export function kvRouterConfig(given: Partial<KvRouterConfig> = {}): KvRouterConfig {
  const config = { ...defaultKvRouterConfig, ...given };
  checkRanges(config);
  checkTogether(config);
  return config;
}

type NumberField = { [K in keyof KvRouterConfig]: KvRouterConfig[K] extends number ? K : never }[keyof KvRouterConfig];

/** Bounds of numbers: the field, its name as operators write it, and the largest value. */
const RANGES: readonly (readonly [NumberField, string, number])[] = [
  ['overlapScoreCredit', 'overlap_score_credit', Number.MAX_VALUE],
  ['overlapScoreCreditDecay', 'overlap_score_credit_decay', Number.MAX_VALUE],
  ['prefillLoadScale', 'prefill_load_scale', Number.MAX_VALUE],
  ['decodeActiveRequestWeight', 'decode_active_request_weight', Number.MAX_VALUE],
  ['hostCacheHitWeight', 'host_cache_hit_weight', 1],
  ['diskCacheHitWeight', 'disk_cache_hit_weight', 1],
  ['sharedCacheMultiplier', 'shared_cache_multiplier', 1],
  ['routerTemperature', 'router_temperature', Number.MAX_VALUE],
  ['ttlMs', 'router_ttl_secs', Number.MAX_VALUE],
  ['overlapRefreshAfterMs', 'DYN_ROUTER_OVERLAP_REFRESH_AFTER_SECS', Number.MAX_VALUE],
  ['activeRequestExpiryMs', 'DYN_ROUTER_ACTIVE_REQUEST_EXPIRY_SECS', Number.MAX_VALUE],
];

/** @throws KvRouterConfigError unless `value` is finite and within `0 .. max` */
export function checkRange(field: string, value: number, max = Number.MAX_VALUE): void {
  if (value >= 0 && value <= max) return; // NaN and the infinities fail both ways
  const allowed = max === Number.MAX_VALUE ? 'a finite, non-negative number' : `a number from 0 to ${max}`;
  throw new KvRouterConfigError(field, `${field} must be ${allowed}, not ${value}`);
}

function checkRanges(config: KvRouterConfig): void {
  for (const [field, name, max] of RANGES) checkRange(name, config[field], max);
  if (typeof config.queueThreshold === 'number') checkRange('router_queue_threshold', config.queueThreshold);
  if (config.predictedTtlMs !== undefined) checkRange('router_predicted_ttl_secs', config.predictedTtlMs);
  checkMissingIsl(config.queueByIncomingMissingIsl);
}

function checkMissingIsl(limits: readonly MissingIslLimit[]): void {
  const field = 'router_queue_by_incoming_missing_isl';
  for (let at = 0; at < limits.length; at++) {
    const { missingTokensFloor: floor, tokensPerWorkerMax: depth } = limits[at] as MissingIslLimit;
    const before = at === 0 ? undefined : limits[at - 1]?.missingTokensFloor;
    if (before === undefined ? floor !== 0 : !(floor > before)) {
      throw new KvRouterConfigError(field, `${field}: floors must start at 0 and rise, not ${floor} at ${at}`);
    }
    if (!(depth >= 1))
      throw new KvRouterConfigError(field, `${field}: max_queue_depth must be at least 1, not ${depth}`);
  }
}

/** Conditions that must not hold, the field that the error names, and its message. */
const CONTRADICTIONS: readonly (readonly [(config: KvRouterConfig) => boolean, string, string])[] = [
  [
    (config) => config.trackOutputBlocks && !config.trackActiveBlocks,
    'router_track_output_blocks',
    'needs router_track_active_blocks',
  ],
  [
    (config) => config.prefillLoadModel !== 'none' && !config.trackPrefillTokens,
    'router_prefill_load_model',
    'needs router_track_prefill_tokens',
  ],
  [(config) => config.useRemoteIndexer && config.serveIndexer, 'use_remote_indexer', 'excludes serve_indexer'],
  [
    (config) => config.approximateCachePolicy === 'lru' && config.useKvEvents,
    'router_approximate_cache_policy',
    'lru needs use_kv_events to be false',
  ],
  [
    (config) => config.predictedTtlMs !== undefined && !config.useKvEvents,
    'router_predicted_ttl_secs',
    'needs use_kv_events',
  ],
  [
    (config) => config.costModel === 'stator' && !config.trackPrefillTokens,
    'router_cost_model',
    'stator needs router_track_prefill_tokens',
  ],
];

function checkTogether(config: KvRouterConfig): void {
  for (const [isBroken, field, message] of CONTRADICTIONS) {
    if (isBroken(config)) throw new KvRouterConfigError(field, `${field} ${message}`);
  }
}

/** Returns `config` with the load-only preset `--load-aware` applied. */
export function loadAware(config: KvRouterConfig): KvRouterConfig {
  return kvRouterConfig({
    ...config,
    overlapScoreCredit: 0,
    useKvEvents: false,
    predictedTtlMs: undefined,
    approximateCachePolicy: 'ttl',
    assumeKvReuse: false,
    trackActiveBlocks: true,
    trackPrefillTokens: true,
    useRemoteIndexer: false,
    serveIndexer: false,
  });
}

/** Returns the configuration of a pool of prefill workers, which do not decode. */
export function prefillPoolConfig(config: KvRouterConfig): KvRouterConfig {
  return kvRouterConfig({ ...config, trackActiveBlocks: false, trackOutputBlocks: false });
}
