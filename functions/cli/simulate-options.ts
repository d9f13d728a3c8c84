import { basename } from 'node:path';
import type { ResolvedConfig, SettingName, Settings } from '../../shared/config/index.ts';
import { costModelOf, type KvRouterConfig, kvRouterConfig } from '../../shared/router/index.ts';
import type { SimulationOptions, Workload } from '../../shared/simulate/index.ts';

type SimulateSettings = Settings<'simulate'>;

/** Weights of Dynamo's formula: one that is set keeps its meaning (ruling 34). */
const WEIGHTS: readonly SettingName[] = [
  'routerKvOverlapScoreCredit',
  'routerKvOverlapScoreCreditDecay',
  'routerKvOverlapScoreWeight',
  'routerPrefillLoadScale',
  'routerDecodeActiveRequestWeight',
  'routerTemperature',
];

/** Requests wait centrally while every worker has a backlog. */
const STATOR_QUEUE_THRESHOLD = 0;

/** What to simulate, from the settings of one run. */
export function simulationOptions(config: ResolvedConfig<'simulate'>, workload: Workload): SimulationOptions {
  const { settings } = config;
  return {
    workload,
    workers: settings.workers,
    dataParallelSize: settings.dataParallelSize,
    engine: {
      numGpuBlocks: settings.numGpuBlocks,
      blockSizeTokens: settings.blockSize,
      maxNumSeqs: settings.maxNumSeqs,
      maxNumBatchedTokens: settings.maxNumBatchedTokens,
      enablePrefixCaching: settings.enablePrefixCaching,
      enableChunkedPrefill: settings.enableChunkedPrefill,
      preemptionMode: settings.preemptionMode,
      speedupRatio: settings.speedupRatio,
      decodeSpeedupRatio: settings.decodeSpeedupRatio,
    },
    contextTokensMax: settings.maxModelLen,
    routing: {
      mode: settings.loadAware ? 'load-aware' : settings.mode,
      routers: settings.routers,
      replicaSyncDelayMs: settings.replicaSyncDelayMs,
      kv: kvConfig(config),
    },
    arrivalSpeedup: settings.arrivalSpeedup,
    concurrency: settings.replayConcurrency,
    kvEventLagMs: settings.kvEventLagMs,
    seed: settings.routerSeed ?? settings.seed,
  };
}

function kvConfig({ settings, given }: ResolvedConfig<'simulate'>): KvRouterConfig {
  const isWeightSet = WEIGHTS.some((setting) => given.has(setting));
  const costModel = costModelOf(settings.costModel, isWeightSet);
  // The gate belongs to the stator model; a threshold that is given wins (router.md, section 12.5).
  const hasOwnGate = costModel === 'stator' && !given.has('routerQueueThreshold');
  const predictedTtlSecs = settings.routerPredictedTtlSecs;
  return kvRouterConfig({
    costModel,
    overlapScoreCredit: settings.routerKvOverlapScoreCredit,
    overlapScoreCreditDecay: settings.routerKvOverlapScoreCreditDecay,
    prefillLoadScale: settings.routerPrefillLoadScale,
    decodeActiveRequestWeight: settings.routerDecodeActiveRequestWeight,
    routerTemperature: settings.routerTemperature,
    useKvEvents: settings.routerKvEvents,
    ttlMs: settings.routerTtlSecs * 1000,
    approximateCachePolicy: settings.routerApproximateCachePolicy,
    predictedTtlMs: predictedTtlSecs === undefined ? undefined : predictedTtlSecs * 1000,
    replicaSync: settings.routers > 1,
    trackActiveBlocks: settings.routerTrackActiveBlocks,
    trackOutputBlocks: settings.routerTrackOutputBlocks,
    assumeKvReuse: settings.routerAssumeKvReuse,
    trackPrefillTokens: settings.routerTrackPrefillTokens,
    queueThreshold: hasOwnGate ? STATOR_QUEUE_THRESHOLD : (settings.routerQueueThreshold ?? undefined),
    queuePolicy: settings.routerQueuePolicy,
    overlapRefreshAfterMs: settings.routerOverlapRefreshAfterSecs * 1000,
    activeRequestExpiryMs: settings.routerActiveRequestExpirySecs * 1000,
  });
}

/** What was simulated, for the head of a report. */
export function describeRun(
  settings: SimulateSettings,
  options: SimulationOptions,
): Readonly<Record<string, string | number>> {
  const { mode, kv } = options.routing;
  return {
    workload: settings.trace === undefined ? (settings.workload ?? '') : basename(settings.trace),
    requests: options.workload.size,
    workers: settings.workers,
    'router-mode': mode,
    ...(mode === 'kv' || mode === 'load-aware' ? { 'cost-model': kv.costModel } : {}),
    ...(settings.arrivalSpeedup === 1 ? {} : { 'arrival-speedup': settings.arrivalSpeedup }),
    seed: options.seed,
  };
}
