import type { RouterSettings } from '../config/index.ts';
import { ServeError } from '../errors/index.ts';
import type { RouterConfigOverride } from '../protocol/index.ts';
import {
  type KvRouterConfig,
  KvRouterConfigError,
  kvRouterConfig,
  loadAware,
  type MissingIslLimit,
} from './kv-config.ts';

/** Reads a field of the object form. A string instead of a function names the field that takes the value as it is. */
type Reader = (value: unknown, field: string) => Partial<KvRouterConfig>;

/**
 * Returns the fields that the object form of the configuration sets: Dynamo's `KvRouterConfig`, in snake_case and
 * seconds.
 * @throws KvRouterConfigError for an unknown key, and for a value of the wrong type
 */
export function readGivenConfig(object: Readonly<Record<string, unknown>>): Partial<KvRouterConfig> {
  const given: Partial<Record<keyof KvRouterConfig, unknown>> = {};
  for (const [field, value] of Object.entries(object)) {
    const read = READERS[field];
    if (read === undefined) {
      throw new KvRouterConfigError(field, `${field} is not a field of the router's configuration`);
    }
    if (value !== undefined) Object.assign(given, read(value, field));
  }
  if (object.shared_cache_multiplier == null && object.shared_cache_type === 'hicache') {
    given.sharedCacheMultiplier = 0.5;
  }
  return Object.assign(given, legacyWeight(object.overlap_score_weight)) as Partial<KvRouterConfig>;
}

/**
 * Reads the older single weight. It scales prefill, and at 0 overlap does not count. It overrides both newer fields.
 */
function legacyWeight(weight: unknown): Partial<KvRouterConfig> {
  if (typeof weight !== 'number') return {};
  return weight === 0 ? { prefillLoadScale: 0, overlapScoreCredit: 0 } : { prefillLoadScale: weight };
}

function wrong(field: string, allowed: string, value: unknown): KvRouterConfigError {
  return new KvRouterConfigError(field, `${field} must be ${allowed}, not ${JSON.stringify(value)}`);
}

function number(name: keyof KvRouterConfig, factor = 1): Reader {
  return (value, field) => {
    if (typeof value !== 'number') throw wrong(field, 'a number', value);
    return { [name]: value * factor };
  };
}

/** Reads a number, or null for "off". */
function numberOrNone(name: keyof KvRouterConfig, factor = 1): Reader {
  const read = number(name, factor);
  return (value, field) => (value === null ? { [name]: undefined } : read(value, field));
}

function flag(name: keyof KvRouterConfig | undefined): Reader {
  return (value, field) => {
    if (typeof value !== 'boolean') throw wrong(field, 'true or false', value);
    return name === undefined ? {} : { [name]: value };
  };
}

function choice(name: keyof KvRouterConfig | undefined, allowed: readonly string[]): Reader {
  return (value, field) => {
    if (typeof value !== 'string' || !allowed.includes(value))
      throw wrong(field, `one of ${allowed.join(', ')}`, value);
    return name === undefined ? {} : { [name]: value };
  };
}

/** Accepts a field that other code reads, or that has no effect. */
const ignored: Reader = () => ({});

const durable: Reader = (value, field) => {
  if (value === true) throw new KvRouterConfigError(field, `${field} was removed: KV events have one log`);
  return {};
};

const READERS: Readonly<Record<string, Reader>> = {
  overlap_score_credit: number('overlapScoreCredit'),
  overlap_score_weight: number('prefillLoadScale'),
  overlap_score_credit_decay: number('overlapScoreCreditDecay'),
  prefill_load_scale: number('prefillLoadScale'),
  decode_active_request_weight: number('decodeActiveRequestWeight'),
  host_cache_hit_weight: number('hostCacheHitWeight'),
  disk_cache_hit_weight: number('diskCacheHitWeight'),
  shared_cache_multiplier: (value, field) => (value === null ? {} : number('sharedCacheMultiplier')(value, field)),
  shared_cache_type: choice(undefined, ['none', 'hicache']),
  router_temperature: number('routerTemperature'),
  use_kv_events: flag('useKvEvents'),
  durable_kv_events: durable,
  router_replica_sync: flag(undefined),
  router_track_active_blocks: flag('trackActiveBlocks'),
  router_track_output_blocks: flag('trackOutputBlocks'),
  router_assume_kv_reuse: flag('assumeKvReuse'),
  router_track_prefill_tokens: flag('trackPrefillTokens'),
  router_prefill_load_model: choice('prefillLoadModel', ['none', 'aic']),
  router_snapshot_threshold: ignored,
  router_reset_states: flag(undefined),
  router_ttl_secs: number('ttlMs', 1000),
  router_approximate_cache_policy: choice('approximateCachePolicy', ['ttl', 'lru']),
  router_max_tree_size: ignored,
  router_prune_target_ratio: ignored,
  router_queue_threshold: numberOrNone('queueThreshold'),
  router_queue_policy: choice('queuePolicy', ['fcfs', 'lcfs', 'wspt']),
  router_queue_by_incoming_missing_isl: (value, field) => ({ queueByIncomingMissingIsl: missingIsl(value, field) }),
  router_event_threads: (value, field) => {
    if (!Number.isInteger(value) || (value as number) < 1) throw wrong(field, 'a whole number of at least 1', value);
    return {};
  },
  skip_initial_worker_wait: flag(undefined),
  use_remote_indexer: flag('useRemoteIndexer'),
  serve_indexer: flag('serveIndexer'),
  router_predicted_ttl_secs: numberOrNone('predictedTtlMs', 1000),
  router_policy_config: ignored,
  router_tracking_hash: choice(undefined, ['public-xxh3-v1', 'keyed-xxh3-v1']),
  router_tracking_key_file: ignored,
  router_tracking_key_id: ignored,
  enable_session_prefix_index: flag(undefined),
  conditional_disagg_enabled: ignored,
  conditional_disagg_policy: ignored,
  conditional_disagg_eff_isl_threshold: ignored,
  conditional_disagg_eff_isl_ratio_threshold: ignored,
  conditional_disagg_prefill_busy_threshold: ignored,
  conditional_disagg_decode_busy_threshold: ignored,
};

function missingIsl(value: unknown, field: string): readonly MissingIslLimit[] {
  const rows = Array.isArray(value) ? value : [value];
  return rows.map((row: unknown) => {
    const { missing_cache_tokens_floor: floor, max_queue_depth: depth } = (row ?? {}) as Record<string, unknown>;
    if (typeof floor !== 'number' || typeof depth !== 'number') {
      throw wrong(field, 'a list of {missing_cache_tokens_floor, max_queue_depth}', value);
    }
    return { missingTokensFloor: floor, tokensPerWorkerMax: depth };
  });
}

/**
 * Returns the configuration that the settings describe.
 * @param policyFile the `router` section of the policy file, which overrides flags
 * @throws KvRouterConfigError for a value out of range or two settings that exclude each other
 */
export function kvRouterConfigOf(settings: RouterSettings, policyFile: Partial<KvRouterConfig> = {}): KvRouterConfig {
  const isWeightSet = settings.loadAware || setsWeight(policyFile);
  const { routerPredictedTtlSecs, routerOverlapRefreshAfterSecs = 10 } = settings;
  const tracksPrefill = policyFile.trackPrefillTokens ?? settings.routerTrackPrefillTokens;
  // The cost model `stator` learns its own pace of prefill, so a load model means Dynamo's formula.
  const prefillLoadModel = policyFile.prefillLoadModel ?? settings.routerPrefillLoadModel;
  const isDynamoAsked = isWeightSet || !tracksPrefill || prefillLoadModel !== 'none';
  // In our replay tables (docs/simulate.md) `stator` is within 2 % of the best Dynamo setting, or better, on every row.
  // With late events and with two routers it is no worse than `dynamo`. A setting that only Dynamo's formula has
  // selects that formula.
  const { routerCostModel = 'auto' } = settings;
  const autoModel = isDynamoAsked ? 'dynamo' : 'stator';
  const config: KvRouterConfig = kvRouterConfig({
    costModel: routerCostModel === 'auto' ? autoModel : routerCostModel,
    overlapScoreCredit: settings.routerKvOverlapScoreCredit,
    overlapScoreCreditDecay: settings.routerKvOverlapScoreCreditDecay,
    prefillLoadScale: settings.routerPrefillLoadScale,
    decodeActiveRequestWeight: settings.routerDecodeActiveRequestWeight,
    hostCacheHitWeight: settings.routerHostCacheHitWeight,
    diskCacheHitWeight: settings.routerDiskCacheHitWeight,
    sharedCacheMultiplier: settings.sharedCacheMultiplier ?? 0,
    routerTemperature: settings.routerTemperature,
    tieBreak: settings.routerTieBreak,
    useKvEvents: settings.routerKvEvents,
    ttlMs: settings.routerTtlSecs * 1000,
    approximateCachePolicy: settings.routerApproximateCachePolicy,
    predictedTtlMs: routerPredictedTtlSecs === undefined ? undefined : routerPredictedTtlSecs * 1000,
    trackActiveBlocks: settings.routerTrackActiveBlocks,
    trackOutputBlocks: settings.routerTrackOutputBlocks,
    assumeKvReuse: settings.routerAssumeKvReuse,
    trackPrefillTokens: settings.routerTrackPrefillTokens,
    prefillLoadModel,
    queueThreshold: settings.routerQueueThreshold ?? undefined,
    queuePolicy: settings.routerQueuePolicy,
    useRemoteIndexer: settings.useRemoteIndexer,
    serveIndexer: settings.serveIndexer ?? false,
    overlapRefreshAfterMs: routerOverlapRefreshAfterSecs * 1000,
    activeRequestExpiryMs: settings.routerActiveRequestExpirySecs * 1000,
    ...policyFile,
  });
  return settings.loadAware ? loadAware(config) : config;
}

const FORMULA_FIELDS = [
  'overlapScoreCredit',
  'overlapScoreCreditDecay',
  'prefillLoadScale',
  'decodeActiveRequestWeight',
  'routerTemperature',
] as const satisfies readonly (keyof KvRouterConfig)[];

function setsWeight(policyFile: Partial<KvRouterConfig>): boolean {
  return FORMULA_FIELDS.some((field) => policyFile[field] !== undefined);
}

/** Part of the configuration that one request may override. */
export interface RequestWeights {
  readonly overlapScoreCredit: number;
  readonly prefillLoadScale: number;
  readonly routerTemperature: number;
  readonly sharedCacheMultiplier: number;
  readonly assumeKvReuse: boolean;
  readonly trackPrefillTokens: boolean;
}

/**
 * Returns the router's weights with the request's own on top of them.
 * @throws ServeError `invalid_value` that names the field
 */
export function weightsFor(config: KvRouterConfig, override: RouterConfigOverride | undefined): RequestWeights {
  if (override === undefined) return config;
  const legacy = weightOfField(override, 'overlap_score_weight');
  const credit = legacy === 0 ? 0 : weightOfField(override, 'overlap_score_credit');
  const scale = legacy ?? weightOfField(override, 'prefill_load_scale');
  return {
    overlapScoreCredit: credit ?? config.overlapScoreCredit,
    prefillLoadScale: scale ?? config.prefillLoadScale,
    routerTemperature: weightOfField(override, 'router_temperature') ?? config.routerTemperature,
    sharedCacheMultiplier: weightOfField(override, 'shared_cache_multiplier', 1) ?? config.sharedCacheMultiplier,
    assumeKvReuse: override.assume_kv_reuse ?? config.assumeKvReuse,
    trackPrefillTokens: override.track_prefill_tokens ?? config.trackPrefillTokens,
  };
}

/**
 * Whether the request sets a weight that only Dynamo's formula has. The weight keeps its meaning: Dynamo's formula then
 * scores this request, even if another one scores the rest.
 */
export function asksForDynamo(override: RouterConfigOverride): boolean {
  return override.track_prefill_tokens === false || DYNAMO_WEIGHTS.some((field) => override[field] !== undefined);
}

const DYNAMO_WEIGHTS = [
  'overlap_score_credit',
  'overlap_score_weight',
  'prefill_load_scale',
  'router_temperature',
  'shared_cache_multiplier',
] as const satisfies readonly (keyof RouterConfigOverride)[];

type NumberField = Exclude<keyof RouterConfigOverride, 'assume_kv_reuse' | 'track_prefill_tokens'>;

function weightOfField(override: RouterConfigOverride, field: NumberField, max = Number.MAX_VALUE): number | undefined {
  const value = override[field];
  if (value === undefined || (value >= 0 && value <= max)) return value;
  throw new ServeError('invalid_value', `Invalid request: ${field} must be a finite number of at least 0`, {
    param: `router_config_override.${field}`,
  });
}
