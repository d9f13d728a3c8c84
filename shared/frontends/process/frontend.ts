import type { TimeAndChance } from '../../clock/index.ts';
import { tellWhile } from '../../concurrency/index.ts';
import type { EdgeSettings } from '../../config/index.ts';
import type { Discovery } from '../../discovery/index.ts';
import { reasonOf, ServeError } from '../../errors/index.ts';
import {
  type CallingPlaneOptions,
  callingPlane,
  type DiscoveryHost,
  openDiscovery,
  servingPlane,
} from '../../fleet/index.ts';
import {
  type BusyThresholdValues,
  CacheClearer,
  createPipeline,
  LiveModelDirectory,
  MediaMemory,
  ModelStore,
  RequestCanceller,
  type RoutableModel,
  RoutingExplainer,
  workerSetsOf,
} from '../../pipeline/index.ts';
import { absencesOf, type EventPlane, type RequestPlane } from '../../planes/index.ts';
import type { PlannerEventOf } from '../../protocol/index.ts';
import { InitialWorkers } from '../../router/index.ts';
import { openRouterMetrics, openRouting } from '../../routing/index.ts';
import { Inhibition } from '../../scheduler/index.ts';
import {
  bucketsOf,
  createDrainMetrics,
  createFrontendMetrics,
  createHeldBytesMetrics,
  createSpeculationMetrics,
  type FrontendMetrics,
  type Logger,
  openTelemetry,
  type ProcessLogger,
  type RequestRecorder,
  type Tracer,
} from '../../telemetry/index.ts';
import { createHttpApp } from '../http/app.ts';
import { budgetBytes, httpSettings } from '../http/settings.ts';
import { ByteBudget, type InferenceDeps } from '../inference/deps.ts';
import { ServiceLifecycle } from '../inference/lifecycle.ts';
import { isOpenToAll, openGate, openNames } from './access.ts';
import { observeDisaggregation, openBypass } from './disaggregation.ts';
import { publishMetrics, watchView } from './embedded-metrics.ts';
import { type HoldBounds, openHold } from './hold.ts';
import {
  factsOf,
  logPreprocessing,
  logRequests,
  ModelGauges,
  ModelLines,
  overrunObserver,
  stallObserver,
} from './observers.ts';
import { cardFilter, chatCheck, modelOpener, openPromptEncoder } from './open-model.ts';
import { requireTokenizer } from './own-folder.ts';
import { openPlannerFeed } from './planner-feed.ts';
import { openRequestRecords, openResponseStore } from './records.ts';

export interface FrontendOptions extends TimeAndChance {
  readonly logger: ProcessLogger;
  /** How the host wants its connections to workers. */
  readonly plane?: CallingPlaneOptions;
  /** What the host may do to the discovery table. */
  readonly discovery?: DiscoveryHost;
  /** Whether the host can follow events; one that is frozen between requests cannot. @default true */
  readonly followsEvents?: boolean;
  /** A request waits for a worker: told for the first of a model, and every 5 s while any waits. */
  readonly onHeld?: (event: PlannerEventOf<'request.held'>) => void;
  /** Longest waits for a worker that the host can keep. @default as the settings say */
  readonly holdBounds?: HoldBounds;
  /** Told of every request beside the records that the settings ask for. */
  readonly recorder?: Pick<RequestRecorder, 'requestEnded'>;
  /** When the secrets of the fleet were first in force, Unix ms; undefined while it is not known. */
  readonly secretsSinceMs?: () => number | undefined;
}

/** A frontend ready to answer; the host decides where its requests come from. */
export interface Frontend {
  readonly app: ReturnType<typeof createHttpApp>;
  /** The same for whoever runs the process, who shows no key. */
  readonly appForOperator: () => ReturnType<typeof createHttpApp>;
  /**
   * Loads code that is otherwise loaded when it is first needed. For processes that listen, before they do: clients may hold all
   * files of the process, and Node tries a file once.
   */
  load(): Promise<void>;
  /** What other dialects of inference work with. */
  readonly inference: InferenceDeps;
  /** Room for requests that are being read, whatever dialect they are of. */
  readonly bodies: ByteBudget;
  readonly lifecycle: ServiceLifecycle;
  readonly models: LiveModelDirectory;
  readonly metrics: FrontendMetrics;
  /** Whoever reaches it is served, and nobody has said that this is wanted. */
  readonly isOpenToAll: boolean;
  /**
   * Whether a model answers chats: it is offered for them, and has a template to write them with where one is needed. Rejects
   * when the model cannot be loaded.
   */
  readonly takesChats: (model: RoutableModel) => Promise<boolean>;
  /** Resolves when models and workers are known as of at most `maxAgeMs` ago, or cannot be (see `Discovery.refresh`). */
  refresh(maxAgeMs: number, signal: AbortSignal, shardKey?: string): Promise<void>;
  /** Sends traces and logs that wait for their collector, in bounded time. */
  flush(): Promise<void>;
  /** A drain is over and has cut so many answers: told in the log and counted. */
  drained(cut: number): void;
  /** Closes connections and discovery; answers under way are cut. */
  close(): Promise<void>;
}

/** Builds the whole path from the HTTP app to the workers. Rejects with one line when discovery cannot be read. */
export async function composeFrontend(
  settings: EdgeSettings,
  {
    clock,
    random,
    logger,
    plane: planeOptions,
    discovery: host,
    followsEvents = true,
    onHeld,
    holdBounds,
    recorder,
    secretsSinceMs,
  }: FrontendOptions,
): Promise<Frontend> {
  if (settings.modelPath !== undefined) await requireTokenizer(settings.modelPath);
  const metrics = createFrontendMetrics({
    clock,
    prefix: settings.metricsPrefix,
    buckets: bucketsOf(settings),
  });
  const telemetry = await openTelemetry(settings, { clock, random }, logger, metrics.registry);
  const plane = await callingPlane(settings, clock, metrics.requestPlane, planeOptions, logger.for('requests'));
  const lifecycle = new ServiceLifecycle(clock, metrics.limitReached);
  const drains = createDrainMetrics(metrics.registry);
  const closing = new AbortController();
  const { registry } = metrics;
  const view = watchView(clock);
  const hosted = { ...host, clock, random, registry, onView: view.seen };
  const discovery = await openDiscovery(settings, logger.for('discovery'), hosted);
  try {
    const workersMin = settings.routerMinInitialWorkers ?? 0;
    const initial = new InitialWorkers({ workersMin, clock, signal: closing.signal });
    const isLasting = host?.isLasting ?? true;
    const { tracer } = telemetry;
    const parts = {
      clock,
      random,
      discovery,
      plane,
      metrics,
      logger,
      followsEvents,
      isLasting,
      onHeld,
      bounds: holdBounds,
      tracer,
    };
    const models = await followModels(settings, parts, (workers) => initial.seen(workers));
    const responseStore = await openResponseStore(
      settings,
      { clock, random },
      metrics.registry,
      logger.for('responses'),
    );
    const gate = await openGate(settings, clock, metrics.registry, logger.for('access'));
    const records = openRequestRecords(settings, clock, metrics.registry, logger.for('records'));
    const published = publishMetrics(settings, {
      clock,
      registry,
      lifecycle,
      models: () => primaryModels(models.directory),
      viewAgeMs: view.ageMs,
      secretsSinceMs,
    });
    const held = createHeldBytesMetrics(metrics.registry);
    const http = httpSettings(settings);
    void beReadyWith(initial, lifecycle, logger.for('router'));
    const inference: InferenceDeps = {
      pipeline: models.pipeline,
      metrics,
      logger: logger.for('http'),
      clock,
      random,
      settings: http,
      answers: new ByteBudget('answers_bytes', budgetBytes(settings.httpAnswerBudgetMb), held.answers),
      gate,
      names: openNames(settings),
      records: both(records, recorder ?? published),
      tracer,
      lifecycle,
      lookUp: lookUpIn(discovery),
    };
    const bodies = new ByteBudget('bodies_bytes', budgetBytes(settings.httpBodyBudgetMb), held.bodies);
    const deps = {
      ...inference,
      settings: http,
      bodies,
      responseStore,
      instances: () => models.directory.instances(),
      absences: () => absencesOf([plane, ...models.eventPlanes]),
      caches: models.caches,
      canceller: models.canceller,
      explainer: models.explainer,
    };
    const app = createHttpApp(deps);
    return {
      app,
      load: async () => {
        await Promise.all([app.load(), models.load()]);
      },
      appForOperator: () => createHttpApp({ ...deps, gate: undefined }),
      inference,
      bodies,
      lifecycle,
      models: models.directory,
      metrics,
      isOpenToAll: isOpenToAll(settings),
      takesChats: models.takesChats,
      refresh: (maxAgeMs, signal, shardKey) => discovery.refresh(maxAgeMs, signal, shardKey),
      flush: () => telemetry.flush(),
      drained: (cut) => {
        drains.cut(cut);
        if (cut > 0) logger.for('http').warn('answers were cut by the shutdown', { cut });
      },
      close: async () => {
        closing.abort();
        models.directory.close();
        models.gauges.close();
        models.pipeline.close();
        gate?.close();
        responseStore?.close();
        published?.close();
        await records?.close();
        await models.feed?.close(); // before the routing, which gives its lease back
        await models.routing.close();
        await models.shared?.close();
        await models.holding?.close();
        await Promise.all([plane.close(), discovery.close(), models.encoder.close()]);
        await telemetry.close();
      },
    };
  } catch (error) {
    closing.abort();
    await Promise.all([plane.close(), discovery.close(), telemetry.close()]);
    throw error;
  }
}

/** Undefined where all models are known. */
function lookUpIn({ shownModels }: Discovery): InferenceDeps['lookUp'] {
  if (shownModels === undefined) return undefined;
  return (name) =>
    shownModels.show(name)?.catch((cause: unknown) => {
      const message = 'Models cannot be looked up just now. Please retry shortly.';
      throw new ServeError('service_unavailable', message, { cause, retryAfterMs: LOOK_UP_RETRY_MS });
    });
}

const LOOK_UP_RETRY_MS = 1000;

/** The service is ready with its first workers, at once where none are asked for. */
async function beReadyWith(initial: InitialWorkers, lifecycle: ServiceLifecycle, log: Logger): Promise<void> {
  const { pending, workersMin } = initial;
  if (pending !== undefined) {
    lifecycle.waiting(() => initial.pending);
    log.info('waiting for workers', { workers: workersMin });
    const tell = (waited_s: number): void => log.info('still waiting for workers', { for: initial.pending, waited_s });
    if ((await tellWhile(initial.awaited, tell)) === 'late')
      log.warn('serving with fewer workers than asked for', { workers: workersMin });
  }
  lifecycle.discovered();
}

interface Parts extends TimeAndChance {
  readonly discovery: Discovery;
  readonly plane: RequestPlane;
  readonly metrics: FrontendMetrics;
  readonly logger: ProcessLogger;
  readonly followsEvents: boolean;
  readonly onHeld: ((event: PlannerEventOf<'request.held'>) => void) | undefined;
  readonly bounds: HoldBounds | undefined;
  /** Whether discovery follows the fleet by itself. */
  readonly isLasting: boolean;
  readonly tracer: Tracer | undefined;
}

/** Follows discovery, loads what it names, and makes the pipeline around it. */
async function followModels(settings: EdgeSettings, parts: Parts, onWorkers: (workers: number) => void) {
  const { clock, random, discovery, plane, metrics, logger, followsEvents } = parts;
  const log = logger.for('models');
  const { open, load } = modelOpener(settings, parts, log, metrics.registry);
  const encoder = openPromptEncoder(settings, clock, log);
  const store = new ModelStore({
    open: async (model) => {
      const loaded = await open(model);
      void encoder.prepare(loaded.tokenizer); // beside what else a start does
      return loaded;
    },
    clock,
    onFailure: (model, reason) => log.error('model cannot be loaded', { model, reason }),
  });
  const eventPlanes: EventPlane[] = []; // one for each part of the process that follows events
  const openEventPlane = followsEvents ? await eventPlaneOpener(settings, parts, eventPlanes) : undefined;
  const { registry } = metrics;
  const feed = await openPlannerFeed(settings, { ...parts, registry, openEventPlane });
  const holding = openHold(settings, {
    ...parts,
    registry,
    logger: log,
    openEventPlane,
    fleetOf: (model) => {
      const known = directory.known(model);
      return known && { namespace: known.namespace, ownName: known.card.display_name };
    },
    nameOf: (ownName) => directory.shownNameOf(ownName),
    outbox: feed?.outbox,
  });
  const { roles = [] } = settings;
  const isRouterAlone = roles.length > 0 && roles.every((role) => role === 'router'); // it is asked by hashes of prompts
  const keepsState = settings.routerMode === 'kv' && followsEvents;
  const shared = keepsState ? await openSharedState(settings, parts) : undefined;
  const routerMetrics = openRouterMetrics(settings, parts);
  let pipeline: ReturnType<typeof createPipeline> | undefined; // made around the routing
  const inhibition = new Inhibition(clock, settings.inhibitedDurationSecs * 1000);
  const routing = await openRouting(settings, {
    ...parts,
    inhibition,
    routerMetrics,
    openServingPlane: () => servingPlane(settings, clock, metrics.requestPlane, logger.for('requests')),
    limitsOf: (model) => pipeline?.thresholds.of(model) ?? {},
    onAnswering: (isAnswering) => feed?.answering(isAnswering),
    shared,
    openEventPlane,
  });
  const { router, explanations: source } = routing;
  const disaggregation = observeDisaggregation(registry, routerMetrics, log);
  const { httpSvcConfigMetricsPollIntervalSecs: pollSecs } = settings;
  const gauges = new ModelGauges({
    clock,
    intervalMs: pollSecs === undefined ? undefined : pollSecs * 1000,
    list: () => primaryModels(directory).map((model) => factsOf(model, settings)),
    show: (facts) => metrics.setModel(facts),
  });
  const lines = new ModelLines(log);
  const directory: LiveModelDirectory = new LiveModelDirectory({
    discovery,
    namespace: settings.namespace,
    namespacePrefix: settings.namespacePrefix,
    modelName: 'modelName' in settings ? settings.modelName : undefined,
    onNotRenamed: (model, renamed) =>
      log.warn('--model-name names one model: another keeps its own name', { model, renamed }),
    kvCacheBlockSizeTokens: settings.kvCacheBlockSize,
    decodesAlone: settings.decodeFallback,
    clock,
    // Requests that wait for workers may come long after the last one has gone.
    rememberedMs: holding === undefined ? settings.modelMemorySecs * 1000 : Number.POSITIVE_INFINITY,
    onChange: () => {
      const models = directory.list();
      if (!isRouterAlone) store.prefetch(models);
      const primary = primaryModels(directory);
      gauges.changed();
      lines.changed(primary);
      const workerSets = primary.flatMap(workerSetsOf);
      routing.follow(workerSets);
      feed?.follow(workerSets);
      const serving = primary.flatMap(({ workers, prefill }) => [...workers, ...(prefill?.workers ?? [])]);
      onWorkers(new Set(serving.map(({ id }) => id)).size);
      disaggregation.follow(primary);
      holding?.hold.look();
    },
    serves: cardFilter(settings.parserVersion, log),
    onWorkerAdded: (workerId) => inhibition.forget(workerId),
    onDiscoveryFailing: (error) =>
      log.warn('discovery cannot be read; serving what is known', { reason: reasonOf(error) }),
    onDiscoveryRecovered: () => log.info('discovery can be read again'),
  });
  await directory.start(AbortSignal.timeout(DISCOVERY_TIMEOUT_MS));
  metrics.readModelsFrom(() =>
    primaryModels(directory).map((model) => ({ model: model.name, isReady: model.readiness.isReady })),
  );
  const workerSets = () => primaryModels(directory).flatMap(workerSetsOf);
  metrics.readWorkersFrom(() => workerSets().flatMap(({ workers }) => workers.map(({ id }) => id)));
  const media = new MediaMemory();
  pipeline = createPipeline({
    models: directory,
    store,
    encoder,
    media,
    router: holding === undefined ? router : holding.queued.watch(router),
    inhibition,
    plane,
    clock,
    random,
    observer: {
      ...metrics,
      ...(settings.debugPerf === true ? logPreprocessing(metrics, logger.for('perf')) : {}),
      ...stallObserver(registry, log),
      ...createSpeculationMetrics(registry),
      ...overrunObserver(metrics, log),
      ...logRequests(logger.for('pipeline')),
      ...disaggregation.observer,
      reused: (pool, tokens) => routing.reused(pool, tokens),
    },
    migrationLimit: settings.migrationLimit,
    migrationTokensMax: settings.migrationMaxSeqLen,
    streamSilenceMsMax: settings.httpBackendStreamTimeoutSecs * 1000,
    stallMs: settings.streamStallSecs * 1000,
    warmUpMs: settings.engineWarmUpSecs * 1000,
    enforcesPrefill: settings.enforceDisagg,
    bypassesPrefill: openBypass(settings, source),
    explanations: source,
    speculativePrefillsMax: settings.speculativePrefillsMax,
    maxTokensDefault: settings.maxTokensDefault,
    hold: holding?.hold,
    thresholds: thresholdsOf(settings),
    excludesUnusableTools: settings.excludeToolsWhenToolChoiceNone,
    busyWorkers: (workers, limits) => routing.busyWorkers(workers, limits),
    onUnreachable: (workerId) => discovery.recheck?.(workerId),
  });
  const instances = () => directory.instances();
  const control = { plane, clock, random, instances };
  const caches = new CacheClearer({
    ...control,
    models: () => primaryModels(directory),
  });
  const canceller = new RequestCanceller(control);
  const { routerConditionalDisagg: isConditional } = settings;
  const explainer =
    source && new RoutingExplainer({ models: directory, store, encoder, media, clock, source, isConditional });
  const takesChats = chatCheck(store);
  const routed = { routing, shared, explainer, feed, holding, eventPlanes };
  return { ...routed, directory, gauges, pipeline, encoder, caches, canceller, takesChats, load };
}

async function eventPlaneOpener(settings: EdgeSettings, { clock, logger, discovery }: Parts, opened: EventPlane[]) {
  const { eventPlane } = await import('../../fleet/index.ts');
  return () => {
    const plane = eventPlane(settings, clock, logger.for('events'), discovery);
    opened.push(plane);
    return plane;
  };
}

/** Its code is loaded where there is a table, or a folder in its place. */
async function openSharedState(settings: EdgeSettings, { clock, random, logger, metrics }: Parts) {
  const isOnFiles = settings.discoveryBackend === 'file' && settings.eventPlane === 'nats';
  if (settings.stateTable === undefined && !isOnFiles) return undefined;
  const { openRouterState } = await import('../../fleet/index.ts');
  return openRouterState(settings, { logger, registry: metrics.registry, clock, random });
}

/** Each model once, under its own name. */
function primaryModels(directory: LiveModelDirectory): RoutableModel[] {
  return directory.list().filter(({ name, primaryName }) => name === primaryName);
}

const DISCOVERY_TIMEOUT_MS = 15_000;

function both(
  records: RequestRecorder | undefined,
  recorder: FrontendOptions['recorder'],
): Pick<RequestRecorder, 'requestEnded'> | undefined {
  if (records === undefined || recorder === undefined) return records ?? recorder;
  return {
    requestEnded: (end) => {
      records.requestEnded(end);
      recorder.requestEnded(end);
    },
  };
}

/** Only an admission control that looks at them makes the thresholds count. */
function thresholdsOf(settings: EdgeSettings): BusyThresholdValues {
  if (settings.admissionControl === 'none') return {};
  return {
    decodeBlocksShare: settings.activeDecodeBlocksThreshold ?? undefined,
    prefillTokens: settings.activePrefillTokensThreshold ?? undefined,
    prefillTokensFraction: settings.activePrefillTokensThresholdFrac ?? undefined,
  };
}
