import type { RouterSettings } from '../../config/index.ts';
import { type KvRouterConfig, kvRouterConfig, loadAware } from './kv-config.ts';

/** What `--router-cost-model` takes. */
export type CostModelChoice = 'auto' | 'stator' | 'dynamo';

/**
 * The configuration that settings stand for.
 * @param policyFile the `router` section of the policy file, which overrides flags
 * @throws KvRouterConfigError for a value out of range or two settings that exclude each other
 */
export function kvRouterConfigOf(settings: RouterSettings, policyFile: Partial<KvRouterConfig> = {}): KvRouterConfig {
  const isWeightSet = settings.loadAware || setsWeight(policyFile);
  const { routerPredictedTtlSecs, routerOverlapRefreshAfterSecs = 10 } = settings;
  const tracksPrefill = policyFile.trackPrefillTokens ?? settings.routerTrackPrefillTokens;
  const prefillLoadModel = policyFile.prefillLoadModel ?? settings.routerPrefillLoadModel; // stator has a pace of its own
  const isDynamoAsked = isWeightSet || !tracksPrefill || prefillLoadModel !== 'none';
  const config: KvRouterConfig = kvRouterConfig({
    costModel: costModelOf(settings.routerCostModel ?? 'auto', isDynamoAsked),
    overlapScoreCredit: settings.routerKvOverlapScoreCredit,
    overlapScoreCreditDecay: settings.routerKvOverlapScoreCreditDecay,
    prefillLoadScale: settings.routerPrefillLoadScale,
    decodeActiveRequestWeight: settings.routerDecodeActiveRequestWeight,
    hostCacheHitWeight: settings.routerHostCacheHitWeight,
    diskCacheHitWeight: settings.routerDiskCacheHitWeight,
    sharedCacheMultiplier: settings.sharedCacheMultiplier ?? 0,
    routerTemperature: settings.routerTemperature,
    useKvEvents: settings.routerKvEvents,
    ttlMs: settings.routerTtlSecs * 1000,
    approximateCachePolicy: settings.routerApproximateCachePolicy,
    predictedTtlMs: routerPredictedTtlSecs === undefined ? undefined : routerPredictedTtlSecs * 1000,
    replicaSync: settings.routerReplicaSync,
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

/**
 * The formula behind a choice. `auto` is `stator`: our replay tables (docs/simulate.md) show it within 2 % of the
 * best Dynamo setting or better on every row of docs/simulate.md, and no worse than `dynamo` with late events and
 * with two routers. Whoever set what only Dynamo's formula has gets that one.
 * @param isDynamoAsked whether the operator set a weight of Dynamo's formula or its load model, which must keep their meaning,
 *   or turned off the tracking of prompt tokens, without which there is no other
 */
export function costModelOf(choice: CostModelChoice, isDynamoAsked: boolean): 'stator' | 'dynamo' {
  if (choice !== 'auto') return choice;
  return isDynamoAsked ? 'dynamo' : 'stator';
}
