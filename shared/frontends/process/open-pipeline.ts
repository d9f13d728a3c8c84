import type { EdgeSettings } from '../../config/index.ts';
import {
  BusyThresholds,
  CacheClearer,
  createPipeline,
  MediaMemory,
  type Pipeline,
  type PipelineObserver,
  type Placer,
  RequestCanceller,
  RoutingExplainer,
} from '../../pipeline/index.ts';
import { createSpeculationMetrics } from '../../telemetry/index.ts';
import type { FrontendDeps } from './deps.ts';
import { observeDisaggregation, openBypass } from './disaggregation.ts';
import { differenceObserver, logRequests, logTimes, overrunObserver, stallObserver, withConsole } from './observers.ts';
import { type KnownModels, primaryModels } from './open-directory.ts';
import type { FleetRouting } from './open-routing.ts';

/** The pipeline, and the objects beside it that ask workers. */
export interface OpenPipeline {
  readonly pipeline: Pipeline & Placer;
  readonly caches: CacheClearer;
  readonly canceller: RequestCanceller;
  /** Explains routing decisions; undefined in modes that do not know the caches. */
  readonly explainer: RoutingExplainer | undefined;
}

/** Opens the pipeline around the models and their routing. @throws KvRouterConfigError for an invalid rule */
export function openPipeline(
  settings: EdgeSettings,
  deps: FrontendDeps,
  { directory, store, encoder, inhibition }: KnownModels,
  fleet: FleetRouting,
  thresholds: BusyThresholds,
): OpenPipeline {
  const { plane, clock, random, discovery, lifetime } = deps;
  const { routing, holding } = fleet;
  const { router, explanations } = routing;
  const media = new MediaMemory();
  const pipeline = lifetime.use(
    createPipeline({
      models: directory,
      store,
      encoder,
      media,
      router: holding === undefined ? router : holding.queued.watch(router),
      inhibition,
      plane,
      clock,
      random,
      observer: observerOf(settings, deps, directory, fleet),
      ...limitsOf(settings),
      enforcesPrefill: settings.enforceDisagg,
      bypassesPrefill: openBypass(settings, explanations),
      explanations,
      hold: holding?.hold,
      thresholds,
      excludesUnusableTools: settings.excludeToolsWhenToolChoiceNone,
      busyWorkers: (workers, limits) => routing.busyWorkers(workers, limits),
      onUnreachable: (workerId) => discovery.recheck?.(workerId),
    }),
  );
  const control = { plane, clock, random, instances: () => directory.instances() };
  const isConditional = settings.routerConditionalDisagg;
  const source = explanations;
  return {
    pipeline,
    caches: new CacheClearer({ ...control, models: () => primaryModels(directory) }),
    canceller: new RequestCanceller(control),
    explainer:
      source && new RoutingExplainer({ models: directory, store, encoder, media, clock, source, isConditional }),
  };
}

/** Returns the observer that counts and logs what happens to requests. */
function observerOf(
  settings: EdgeSettings,
  { metrics, logger, console }: FrontendDeps,
  directory: KnownModels['directory'],
  { routing, routerMetrics }: FleetRouting,
): PipelineObserver {
  const { registry } = metrics;
  const log = logger.for('models');
  const disaggregation = observeDisaggregation(registry, routerMetrics, log);
  directory.follow(() => disaggregation.follow(primaryModels(directory)));
  const observer: PipelineObserver = {
    ...metrics,
    ...(settings.debugPerf === true ? logTimes(logger.for('perf')) : {}),
    ...differenceObserver(log),
    ...stallObserver(registry, log),
    ...createSpeculationMetrics(registry),
    ...overrunObserver(metrics, log),
    ...logRequests(logger.for('pipeline')),
    ...disaggregation.observer,
    reused: (pool, tokens) => routing.reused(pool, tokens),
  };
  return console === undefined ? observer : withConsole(observer, console.observer);
}

/** Returns the bounds of one request. */
function limitsOf(settings: EdgeSettings) {
  return {
    migrationLimit: settings.migrationLimit,
    migrationTokensMax: settings.migrationMaxSeqLen,
    streamSilenceMsMax: settings.httpBackendStreamTimeoutSecs * 1000,
    stallMs: settings.streamStallSecs * 1000,
    warmUpMs: settings.engineWarmUpSecs * 1000,
    speculativePrefillsMax: settings.speculativePrefillsMax,
    maxTokensDefault: settings.maxTokensDefault,
  };
}

/** Returns the busy thresholds. They count only with an admission control that uses them. */
export function thresholdsOf(settings: EdgeSettings): BusyThresholds {
  if (settings.admissionControl === 'none') return new BusyThresholds();
  return new BusyThresholds({
    decodeBlocksShare: settings.activeDecodeBlocksThreshold ?? undefined,
    prefillTokens: settings.activePrefillTokensThreshold ?? undefined,
    prefillTokensFraction: settings.activePrefillTokensThresholdFrac ?? undefined,
  });
}
