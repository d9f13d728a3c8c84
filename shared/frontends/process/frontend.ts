import { Lifetime } from '../../concurrency/index.ts';
import type { EdgeSettings } from '../../config/index.ts';
import type { Discovery } from '../../discovery/index.ts';
import { ServeError } from '../../errors/index.ts';
import type { LiveModelDirectory, Placer, RoutableModel } from '../../pipeline/index.ts';
import { absencesOf } from '../../planes/index.ts';
import type { ResponseStore } from '../../responses/index.ts';
import { createDrainMetrics, createHeldBytesMetrics, type FrontendMetrics } from '../../telemetry/index.ts';
import { createHttpApp } from '../http/app.ts';
import { budgetBytes, httpSettings } from '../http/settings.ts';
import { ByteBudget, type InferenceDeps } from '../inference/deps.ts';
import type { ServiceLifecycle } from '../inference/lifecycle.ts';
import { isOpenToAll, lazyKeyStore, openGate, openNames } from './access.ts';
import type { FrontendDeps, FrontendOptions } from './deps.ts';
import { awaitFirstWorkers } from './first-workers.ts';
import { openBase } from './open-base.ts';
import { openConsole } from './open-console.ts';
import { openDirectory } from './open-directory.ts';
import { chatCheck } from './open-model.ts';
import { openPipeline, thresholdsOf } from './open-pipeline.ts';
import { openFleetRouting } from './open-routing.ts';
import { withOwnFolder } from './own-folder.ts';
import { openRecorders, openResponseStore } from './records.ts';
import { showModels } from './show-models.ts';

/** A frontend ready to answer; the host decides where its requests come from. */
export interface Frontend {
  readonly app: ReturnType<typeof createHttpApp>;
  /** Returns the app for the operator of the process, which requires no key. */
  readonly appForOperator: () => ReturnType<typeof createHttpApp>;
  /**
   * Loads code that is otherwise loaded when it is first needed. A process that listens calls it before it does:
   * clients may hold all file descriptors of the process, and Node tries to load a file only once.
   */
  load(): Promise<void>;
  /** Objects that other dialects of inference also use. */
  readonly inference: InferenceDeps;
  /** Reserves workers for requests that another process sends to them. */
  readonly placer: Placer;
  /** Store of responses; undefined = responses are not stored. */
  readonly responseStore: ResponseStore | undefined;
  /** Room for requests that are being read, of every dialect. */
  readonly bodies: ByteBudget;
  readonly lifecycle: ServiceLifecycle;
  readonly models: LiveModelDirectory;
  readonly metrics: FrontendMetrics;
  /** Whether every client that reaches it is served, although the operator has not asked for this. */
  readonly isOpenToAll: boolean;
  /**
   * Returns whether a model answers chats: it is offered for them, and has a template if one is needed. Rejects when
   * the model cannot be loaded.
   */
  readonly takesChats: (model: RoutableModel) => Promise<boolean>;
  /** Resolves when the view of the fleet is at most `maxAgeMs` old, or cannot be read (see `Discovery.refresh`). */
  refresh(maxAgeMs: number, signal: AbortSignal, shardKey?: string): Promise<void>;
  /** Sends traces and logs that wait for their collector, in bounded time. */
  flush(): Promise<void>;
  /** Logs and counts how many answers a drain has cut. */
  drained(cut: number): void;
  /** Closes connections and discovery; answers under way are cut. */
  close(): Promise<void>;
}

/** Builds the whole path from the HTTP app to the workers. Rejects with one line if discovery cannot be read. */
export function composeFrontend(settings: EdgeSettings, options: FrontendOptions): Promise<Frontend> {
  return Lifetime.compose((lifetime) => compose(settings, options, lifetime));
}

/** Opens everything in the order of its dependencies; `lifetime` closes it in reverse. */
async function compose(given: EdgeSettings, options: FrontendOptions, lifetime: Lifetime): Promise<Frontend> {
  const settings = await withOwnFolder(given, { clock: options.clock, logger: options.logger.for('models') });
  const base = await openBase(settings, options, lifetime);
  const { deps, lifecycle, telemetry } = base;
  const { clock, random, logger, metrics, discovery, plane } = deps;
  const drains = createDrainMetrics(metrics.registry);
  const models = await followFleet(settings, deps);
  const { directory } = models;
  const log = logger.for('responses');
  const responseStore = await lifetime.use(openResponseStore(settings, { clock, random }, metrics.registry, log));
  const held = createHeldBytesMetrics(metrics.registry);
  const gate = await lifetime.use(openGate(settings, clock, metrics.registry, logger.for('access')));
  const http = httpSettings(settings);
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
    records: openRecorders(settings, options, base, directory),
    tracer: telemetry.tracer,
    lifecycle,
    lookUp: lookUpIn(discovery),
    watched: deps.console?.log,
  };
  const bodies = new ByteBudget('bodies_bytes', budgetBytes(settings.httpBodyBudgetMb), held.bodies);
  const httpDeps = {
    ...inference,
    settings: http,
    bodies,
    responseStore,
    instances: () => directory.instances(),
    absences: () => absencesOf([plane, ...models.eventPlanes]),
    caches: models.caches,
    canceller: models.canceller,
    explainer: models.explainer,
    keyStore: lazyKeyStore(settings, lifetime),
    console: openConsole(settings, deps, directory, {
      lifecycle,
      explains: models.explainer !== undefined,
      routing: models.routing,
    }),
  };
  const app = createHttpApp(httpDeps);
  awaitFirstWorkers(settings, base, directory);
  return {
    app,
    load: async () => {
      await Promise.all([app.load(), models.load()]);
    },
    appForOperator: () => createHttpApp({ ...httpDeps, gate: undefined }),
    inference,
    placer: models.pipeline,
    responseStore,
    bodies,
    lifecycle,
    models: directory,
    metrics,
    isOpenToAll: isOpenToAll(settings),
    takesChats: chatCheck(models.store),
    refresh: (maxAgeMs, signal, shardKey) => discovery.refresh(maxAgeMs, signal, shardKey),
    flush: async () => {
      await Promise.all([telemetry.flush(), models.holding?.settled()]);
    },
    drained: (cut) => {
      drains.cut(cut);
      if (cut > 0) logger.for('http').warn('answers were cut by the shutdown', { cut });
    },
    close: () => lifetime.close(),
  };
}

/** Follows discovery, loads the models that it names, and creates the pipeline around them. */
async function followFleet(settings: EdgeSettings, deps: FrontendDeps) {
  const models = openDirectory(settings, deps);
  const { directory } = models;
  showModels(settings, deps, directory);
  const thresholds = thresholdsOf(settings);
  const fleet = await openFleetRouting(settings, deps, models, thresholds);
  const open = openPipeline(settings, deps, models, fleet, thresholds);
  // Every follower of the directory is registered by now. The directory closes before them: nothing changes meanwhile.
  deps.lifetime.use(directory);
  await directory.start(AbortSignal.timeout(DISCOVERY_TIMEOUT_MS));
  return { ...models, ...open, eventPlanes: fleet.eventPlanes, holding: fleet.holding, routing: fleet.routing };
}

const DISCOVERY_TIMEOUT_MS = 15_000;

/** Returns the look-up of a model's name; undefined if all models are known. */
function lookUpIn({ shownModels }: Discovery): InferenceDeps['lookUp'] {
  if (shownModels === undefined) return undefined;
  return (name) =>
    shownModels.show(name)?.catch((cause: unknown) => {
      const message = 'Models cannot be looked up just now. Please retry shortly.';
      throw new ServeError('service_unavailable', message, { cause, retryAfterMs: LOOK_UP_RETRY_MS });
    });
}

const LOOK_UP_RETRY_MS = 1000;
