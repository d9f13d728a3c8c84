import type { Clock, TimeAndChance } from '../../clock/index.ts';
import { Lifetime, tellWhile } from '../../concurrency/index.ts';
import { ConfigError, type ResolvedConfig, type Settings } from '../../config/index.ts';
import type { Discovery, WorkerType } from '../../discovery/index.ts';
import {
  type Engine,
  type EngineKind,
  engineKind,
  type OpenedEngine,
  relabelEngineMetrics,
} from '../../engines/index.ts';
import { invariant } from '../../errors/index.ts';
import { dynamoServingPlane, eventPlane, openDiscovery, servingPlane } from '../../fleet/index.ts';
import { absencesOf, type EventPlane, formatHostPort, listenAddress, type RequestPlane } from '../../planes/index.ts';
import {
  createWorkerMetrics,
  type Logger,
  type MetricRegistry,
  openTelemetry,
  type ProcessLogger,
  type WorkerMetrics,
} from '../../telemetry/index.ts';
import { EndpointHealth } from '../control/endpoint-health.ts';
import type { CardSettings, ServedNames } from '../model-card.ts';
import type { WorkerAddress, WorkerOptions } from '../options.ts';
import { startWorker, type Worker } from '../worker.ts';
import { hostFactsOf } from './host-facts.ts';
import { adapterCache as openAdapterCache, openControlServer, openStatusServer } from './open-parts.ts';
import { startSecondaryNode } from './secondary-node.ts';
import { topologyCard } from './topology.ts';

/** The settings of a worker. The engine chooses some of those that were not given. */
type WorkerConfig = ResolvedConfig<'worker'>;

/** The workers of one process: one, or several mock workers. */
export interface WorkerProcess {
  readonly workers: readonly Worker[];
  /** Resolves when an engine has ended by itself. The process can then only drain and exit with a failure. */
  readonly engineExit: Promise<Error>;
  /**
   * Resolves with the reason when a planner has ordered the process to drain. By then its workers drain, and the
   * process must end.
   */
  readonly drainOrdered: Promise<string>;
  /** Leaves discovery, lets streams end, stops the engines and closes everything. */
  drain(): Promise<void>;
}

/** The objects that the workers of a process share. */
interface SharedDeps extends Omit<WorkerOptions, 'engine' | 'model' | 'card' | 'names' | 'settings' | 'logger'> {
  readonly settings: Settings<'worker'>;
  readonly logger: ProcessLogger;
}

/** A model that code defines, rather than the settings. */
export interface DefinedModel {
  open(): Promise<OpenedEngine>;
  readonly names: ServedNames;
  readonly card: CardSettings;
}

/** Starts the workers that the settings ask for. If it fails, it closes everything and rejects with one line. */
export async function startWorkerProcess(
  config: WorkerConfig,
  timeAndChance: TimeAndChance,
  logger: ProcessLogger,
  signal: AbortSignal,
  defined?: DefinedModel,
): Promise<WorkerProcess> {
  const { settings } = config;
  const address = parseEndpoint(settings.endpoint);
  checkWire(settings);
  if (settings.headless) return startSecondaryNode(config, address, timeAndChance.clock, logger);
  const kind = defined === undefined ? await engineKind(settings) : undefined;
  return Lifetime.compose((lifetime) =>
    openWorkers({ ...timeAndChance, config, address, logger, kind, defined, lifetime }, signal),
  );
}

/** The objects that the composition of a worker process receives. */
interface ProcessDeps extends TimeAndChance {
  readonly config: WorkerConfig;
  readonly address: WorkerAddress;
  readonly logger: ProcessLogger;
  /** Kind of the engine; undefined for a model that code defines. */
  readonly kind: EngineKind | undefined;
  readonly defined: DefinedModel | undefined;
  readonly lifetime: Lifetime;
}

async function openWorkers(deps: ProcessDeps, signal: AbortSignal): Promise<WorkerProcess> {
  const { clock, random, logger, address, kind, defined, lifetime } = deps;
  const { settings } = deps.config;
  const host = hostFactsOf(settings);
  const adapterCache = openAdapterCache(settings, { clock, random }, logger.for('worker'));
  const names = defined?.names ?? {
    displayName: kind?.displayName(settings),
    aliases: settings.servedModelName?.slice(1),
  };
  const metrics = createWorkerMetrics({ clock, ...address, model: names.displayName ?? '' });
  const count = kind?.isSeveral === true ? settings.numWorkers : 1;
  const planes: (RequestPlane | EventPlane)[] = []; // each is added when it opens
  const health = new EndpointHealth(clock, [address.endpoint], {
    starting: settings.systemStartingHealthStatus,
    counting: settings.systemUseEndpointHealthStatus,
    workers: count,
    absences: () => absencesOf(planes),
  });
  const workers: Worker[] = [];
  const engines: Engine[] = [];
  // These open first and so close last: telemetry sends the last logs of the others, and the two servers show their
  // state.
  const telemetry = await lifetime.use(openTelemetry(settings, { clock, random }, logger, metrics.registry));
  const status = await lifetime.use(
    openStatusServer(settings, logger, {
      health,
      metrics: withEngineMetrics(metrics, engines, address),
      model: () => workers[0] && { address, card: workers[0].card },
    }),
  );
  await lifetime.use(openControlServer(settings, clock, logger, () => workers[0]?.control));
  const joined = await joinFleet(deps, metrics, planes);
  const filesFrom = status && addressOf(settings, status.port);
  const shown = { metrics, health, address, filesFrom, tracer: telemetry.tracer };
  const shared = { clock, random, settings, logger, host, adapterCache, ...shown, ...joined };
  const model = defined ?? (await modelOfEngine(deps, names, metrics, signal));
  const staggerMs = staggerDelayMs(settings.staggerDelaySecs, count);
  lifetime.defer(() => Promise.all(workers.map((worker) => worker.drain())));
  for (let at = 0; at < count; at++) {
    if (at > 0 && staggerMs > 0) await clock.sleep(staggerMs, signal);
    workers.push(await startOne(shared, model, engines, signal));
  }
  const engineExit = Promise.race(workers.map((worker) => worker.engineExit));
  const drainOrdered = drainByOrder(joined.discovery, workers, clock, logger.for('worker'));
  return { workers, engineExit, drainOrdered, drain: () => lifetime.close() };
}

/** Drains all workers of the process when a planner orders that. Returns the reason of the first order. */
function drainByOrder(
  discovery: Pick<Discovery, 'onDrainOrdered'>,
  workers: readonly Worker[],
  clock: Clock,
  log: Logger,
): Promise<string> {
  return new Promise((resolve) => {
    discovery.onDrainOrdered(({ reason, deadlineMs }) => {
      const withinMs = Math.max(0, deadlineMs - clock.wallMs());
      log.info('a planner orders this worker to drain', { reason, within_s: Math.round(withinMs / 1000) });
      // If it rejects, so does the drain of the process, which reports it.
      for (const worker of workers) worker.drain(withinMs).catch(() => {});
      resolve(reason);
    });
  });
}

/** Returns the model of the engine that the settings name. It opens an engine for each worker. */
async function modelOfEngine(
  { config, clock, logger, kind }: ProcessDeps,
  names: ServedNames,
  metrics: WorkerMetrics,
  signal: AbortSignal,
): Promise<DefinedModel> {
  invariant(kind !== undefined, 'a model that is not made from code has an engine');
  const { settings } = config;
  const onDroppedKvEvents = (count: number): void => metrics.droppedKvEvents(count);
  const context = { clock, logger: logger.for('engine'), signal, onDroppedKvEvents };
  let engineCount = 0;
  return {
    open: () => kind.open(config, { ...context, at: engineCount++ }),
    names,
    card: {
      ...cardSettings(settings),
      ...(await topologyCard(settings, clock, signal, logger.for('worker'))),
      ...(settings.routeToEncoder ? { route_to_encoder: true } : {}),
      workerType: workerTypeOf(settings, kind),
      ...(kind.runtimeData === undefined ? {} : { runtime_data: kind.runtimeData }),
    },
  };
}

/** Opens the connections of a worker process to its fleet. @param planes receives each plane that opens */
async function joinFleet(
  { config: { settings }, clock, random, logger, lifetime }: ProcessDeps,
  metrics: WorkerMetrics,
  planes: (RequestPlane | EventPlane)[],
) {
  const { registry } = metrics;
  const discovery = await lifetime.use(openDiscovery(settings, logger.for('discovery'), { clock, random, registry }));
  const openPlane = settings.wire === 'dynamo' ? dynamoServingPlane : servingPlane;
  const requestPlane = await lifetime.use(openPlane(settings, clock, metrics.requestPlane, logger.for('requests')));
  planes.push(requestPlane);
  const events = lifetime.use(eventPlane(settings, clock, logger.for('events'), discovery));
  planes.push(events);
  const plannerOutbox = await lifetime.use(openOutbox(settings, clock, logger, registry), (outbox) =>
    outbox.close(OUTBOX_MS_MAX),
  );
  return { discovery, requestPlane, eventPlane: events, plannerOutbox };
}

/** Longest time that the end of a worker waits for the planner's queue, in milliseconds. */
const OUTBOX_MS_MAX = 2000;

/**
 * Opens the planner's queue, and loads its code only if the settings name a queue. If a frontend reports for the fleet,
 * workers need no queue.
 */
async function openOutbox(settings: Settings<'worker'>, clock: Clock, logger: ProcessLogger, registry: MetricRegistry) {
  if (settings.plannerQueueUrl === undefined) return undefined;
  const { openPlannerOutbox } = await import('../../fleet/index.ts');
  return openPlannerOutbox(settings, { clock, logger: logger.for('planner'), registry });
}

async function startOne(
  shared: SharedDeps,
  { open, names, card }: DefinedModel,
  engines: Engine[],
  signal: AbortSignal,
): Promise<Worker> {
  const { settings, logger, ...deps } = shared;
  const { engine, model } = await open();
  engines.push(engine);
  const { engine: kind, engineUrl: url } = settings;
  const log = logger.for('worker');
  const tell = (waited_s: number): void => {
    const [broker] = absencesOf([deps.requestPlane, deps.eventPlane]);
    if (broker === undefined) log.info('waiting for the engine', { engine: kind, url, waited_s });
    else log.info('waiting for the broker', { broker, waited_s });
  };
  const starting = startWorker(
    {
      ...deps,
      engine,
      deviceType: settings.deviceType,
      model,
      card,
      names,
      logger: logger.for('worker'),
      settings: {
        graceMs: settings.gracefulShutdownGracePeriodSecs * 1000,
        drainLimitMs: settings.runtimeGracefulShutdownTimeoutSecs * 1000,
        prefillDrainMs: (settings.prefillDrainTimeoutSecs ?? 0) * 1000,
        requestLimit: settings.engineRequestLimit,
        requestQueueLimit: settings.dynamoRequestQueueLimit,
        healthIntervalMs: settings.engineHealthCheckIntervalSecs * 1000,
        healthTimeoutMs: settings.engineHealthCheckTimeoutSecs * 1000,
        engineStopMs: settings.engineHealthShutdownTimeoutSecs * 1000,
        loadReportIntervalMs: settings.loadReportIntervalMs,
        rollupIntervalMs: settings.eventRollupIntervalMs,
        gpus: settings.tensorParallelSize ?? 1,
        servesAdapters: settings.loraEnabled && settings.disaggregationMode !== 'prefill',
        sleepLevel: settings.sleepModeLevel,
        enableLocalIndexer: settings.enableLocalIndexer,
        canary: canaryOf(settings),
      },
    },
    signal,
  );
  return tellWhile(starting, tell);
}

function canaryOf(settings: Settings<'worker'>) {
  if (!settings.healthCheckEnabled) return undefined;
  const { canaryWaitTimeSecs, healthCheckRequestTimeoutSecs, engineWarmUpSecs, healthCheckPayload: payload } = settings;
  if (payload !== undefined && (typeof payload !== 'object' || payload === null || Array.isArray(payload))) {
    throw new ConfigError(['DYN_HEALTH_CHECK_PAYLOAD: expected a JSON object']);
  }
  const record = payload as Readonly<Record<string, unknown>> | undefined;
  const timeoutMs = healthCheckRequestTimeoutSecs * 1000;
  return { idleMs: canaryWaitTimeSecs * 1000, timeoutMs, warmUpMs: engineWarmUpSecs * 1000, payload: record };
}

/** Returns the role of the worker. @throws ConfigError for a role that the engine cannot take */
function workerTypeOf(
  { disaggregationMode: mode, engine }: Settings<'worker'>,
  { roles = [] }: EngineKind,
): WorkerType {
  if (mode === 'agg') return 'aggregated';
  if (!roles.includes(mode))
    throw new ConfigError([`--disaggregation-mode ${mode}: --engine ${engine} cannot do that`]);
  return mode === 'pd' ? 'aggregated' : mode; // prefill and decode in one, beside encode workers
}

/** Stores in which Dynamo's frontends read records. */
const STORES_OF_DYNAMO: readonly string[] = ['file', 'etcd', 'kubernetes'];

/** Refuses settings with which no frontend of Dynamo finds or reaches the worker. @throws ConfigError */
function checkWire({ wire, discoveryBackend: store, requestPlane, eventPlane: events }: Settings<'worker'>): void {
  if (wire !== 'dynamo') return;
  if (!STORES_OF_DYNAMO.includes(store)) {
    const says = `Dynamo's frontends do not read --discovery-backend ${store}`;
    throw new ConfigError([`--wire dynamo: ${says}; use ${STORES_OF_DYNAMO.join(', ')}`]);
  }
  if (requestPlane !== 'tcp') {
    throw new ConfigError([`--wire dynamo: --request-plane ${requestPlane} is not built yet for it; use tcp`]);
  }
  if (events !== 'zmq') {
    throw new ConfigError([`--wire dynamo: --event-plane ${events} is not built yet for it; use zmq`]);
  }
}

/** Returns the address at which other processes reach the status server. */
function addressOf({ systemHost, tcpRpcAdvertiseHost }: Settings<'worker'>, port: number): string {
  return formatHostPort(tcpRpcAdvertiseHost ?? listenAddress(systemHost).advertise, port);
}

/** Parses `dyn://namespace.component.endpoint`, of which the scheme is optional. @throws ConfigError for another text */
export function parseEndpoint(text: string): WorkerAddress {
  const [namespace, component, endpoint, ...rest] = text.replace(/^dyn:\/\//, '').split('.');
  if (!namespace || !component || !endpoint || rest.length > 0) {
    throw new ConfigError([`--endpoint ${JSON.stringify(text)}: expected dyn://namespace.component.endpoint`]);
  }
  return { namespace, component, endpoint };
}

/** Returns the process's own metrics, followed by those of its engine under their own names with Stator's labels. */
function withEngineMetrics(
  metrics: WorkerMetrics,
  engines: readonly Engine[],
  { namespace, component, endpoint }: WorkerAddress,
): Pick<WorkerMetrics, 'contentType' | 'render'> {
  const labels = { dynamo_namespace: namespace, dynamo_component: component, dynamo_endpoint: endpoint };
  return {
    contentType: metrics.contentType,
    render: () => {
      const own = metrics.render();
      const theirs = engines.map((engine) => relabelEngineMetrics(engine.metricsText?.() ?? '', labels));
      const pages = [own, ...theirs].map((text) => text.trimEnd()).filter((text) => text !== '');
      return pages.map((text) => `${text}\n`).join(''); // readers refuse a page whose last line has no end
    },
  };
}

/**
 * Returns the fields of the card that the operator sets: how to read the model's text, which endpoint types it serves,
 * and its stable routing id.
 */
export function cardSettings(settings: Settings<'worker'>): CardSettings {
  const { toolCallParser, reasoningParser, defaultThinkingMode, excludeToolsWhenToolChoiceNone: excludes } = settings;
  return {
    ...(toolCallParser === undefined ? {} : { tool_call_parser: toolCallParser }),
    ...(reasoningParser === undefined ? {} : { reasoning_parser: reasoningParser }),
    ...(defaultThinkingMode === undefined ? {} : { default_thinking_mode: defaultThinkingMode }),
    ...(excludes ? {} : { exclude_tools_when_tool_choice_none: false }),
    ...(settings.stableRoutingId === undefined ? {} : { stable_routing_id: settings.stableRoutingId }),
    endpointTypes: settings.endpointTypes,
  };
}

/** Returns the pause between the starts of two of `count` mock workers, from `--stagger-delay`. */
export function staggerDelayMs(delaySecs: number, count: number): number {
  if (delaySecs >= 0) return delaySecs * 1000;
  if (count > 128) return 200;
  return count >= 32 ? 100 : 0;
}
