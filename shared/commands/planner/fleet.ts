import type { Clock, Random } from '../../clock/index.ts';
import { ConfigError, type Environment, isOfOneProcess, type Settings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { eventPlane, openDiscovery } from '../../fleet/index.ts';
import {
  type Connector,
  createPlannerMetrics,
  type DecisionRecord,
  FleetPlanner,
  type FleetPlannerOptions,
  FolderKeys,
  type LawTick,
  LocalConnector,
  MemoryPlannerStore,
  type Planner,
  type PlannerConfig,
  type PlannerStore,
  type Pool,
  readPlannerConfig,
  type ScalableWorkers,
  VirtualConnector,
  wattsOf,
} from '../../planner/index.ts';
import { type Logger, MetricRegistry, type ProcessLogger } from '../../telemetry/index.ts';
import { type LoopbackServer, PlannerPages, serveLoopback } from './pages.ts';
import { PrometheusTraffic } from './prometheus.ts';
import { type LocalPlanning, lawOf, openPlannerStore, plannerFolder } from './settings.ts';

interface FleetHost {
  readonly settings: Settings<'planner' | 'local'>;
  readonly env: Environment;
  readonly logger: ProcessLogger;
  readonly clock: Clock;
  readonly random: Random;
  tell(line: string): void;
}

interface PlannerHost extends FleetHost {
  readonly settings: Settings<'planner'>;
  /** At most `workersMax` workers that join the fleet of `namespace`; with `--planner-connector local`. */
  readonly workersOf?:
    | ((fleet: { readonly namespace: string; readonly workersMax: number }) => ScalableWorkers)
    | undefined;
}

interface RunningPlanner {
  /** What the log says of it. */
  readonly facts: Readonly<Record<string, string>>;
  /** Runs until `close`; rejects where the law cannot work with what is heard. */
  run(): Promise<void>;
  close(): Promise<void>;
}

/** Processes on one machine start soon; once some have, their own time counts. */
const LOCAL_START_S = 5;

/** `stator planner`: everything that it is made of. @throws ConfigError for settings that cannot be used */
export async function openPlanner(host: PlannerHost): Promise<RunningPlanner> {
  const { settings, env, logger, clock } = host;
  const planner = await plannerOf(settings);
  const { namespace = planner.config.namespace } = settings;
  const connector = connectorOf(host, namespace, planner.config);
  const registry = new MetricRegistry();
  const gpusOf = (pool: Pool): number => planner.config[`${pool}_engine_num_gpu`] ?? 1;
  const metrics = createPlannerMetrics(registry, planner.config, gpusOf);
  const page = await serveMetrics(registry, settings.plannerMetricsPort, clock);
  const store = await openPlannerStore(settings, env);
  const log = logger.for('planner');
  const warn = (problem: string): void => log.warn(problem);
  const plans: Plans = await openFleet(
    host,
    { registry, gpusOf },
    {
      planner,
      store,
      connector,
      namespace,
      model: settings.plannerModel ?? planner.config.model_name ?? undefined,
      metrics,
      readTraffic: trafficOf(settings, namespace, () => plans.fleet.model, clock, warn),
    },
  );
  const facts = {
    law: planner.config.law,
    namespace,
    connector: connector.name,
    ...(page === undefined ? {} : { metrics: page.url }),
    ...plans.shown,
  };
  const close = async (): Promise<void> => {
    await plans.close();
    await Promise.all([store.close(), page?.close()]);
  };
  return { facts, run: () => plans.fleet.run(), close };
}

/** The planner of one `stator local`. */
export interface LocalRun {
  readonly fleet: FleetPlanner;
  close(): Promise<void>;
}

interface LocalPlannerHost extends FleetHost {
  readonly settings: Settings<'local'>;
  readonly planning: LocalPlanning;
  readonly workers: ScalableWorkers;
}

/** The planner of `stator local`, beside the frontend. What it decided stays for `stator planner explain`. */
export async function openLocalPlanner(host: LocalPlannerHost): Promise<LocalRun> {
  const { settings, planning, env, logger, workers, tell } = host;
  const decisions = await openPlannerStore(settings, env);
  const { fleet, shown, ...plans } = await openFleet(
    host,
    { gpusOf: () => 1 },
    {
      ...planning,
      store: new KeptDecisions(decisions, logger.for('planner')),
      connector: new LocalConnector(workers),
      namespace: settings.namespace ?? 'dynamo',
      group: 'local',
    },
  );
  for (const [name, url] of Object.entries(shown)) tell(`${name} at ${url}`);
  const close = async (): Promise<void> => {
    await plans.close();
    await decisions.close();
  };
  return { fleet, close };
}

/** A planner with what it hears and what it shows; who opened its store closes it after it. */
interface Plans {
  readonly fleet: FleetPlanner;
  /** Addresses by name. */
  readonly shown: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

async function openFleet(
  { settings, logger, clock, random, tell }: FleetHost,
  { registry, gpusOf }: { readonly registry?: MetricRegistry; gpusOf(pool: Pool): number },
  options: Omit<
    FleetPlannerOptions,
    'discovery' | 'eventPlane' | 'clock' | 'random' | 'logger' | 'tell' | 'isAlone' | 'where'
  >,
): Promise<Plans> {
  const { store, connector } = options;
  const discovery = await openDiscovery(settings, logger.for('discovery'), {
    clock,
    random,
    ...(registry === undefined ? {} : { registry }),
  });
  const plane = eventPlane(settings, clock, logger.for('events'), discovery);
  const common = { clock, logger: logger.for('planner') };
  const listening = {
    isAlone: isOfOneProcess(settings.discoveryBackend),
    where: { discovery: settings.discoveryBackend, event_plane: settings.eventPlane },
  };
  const onTick = (tick: LawTick): void => pages.ticked(tick);
  const parts = { ...options, ...common, ...listening, random, tell, onTick };
  const fleet = new FleetPlanner({ ...parts, discovery, eventPlane: plane });
  const pages = new PlannerPages({ ...common, fleet: () => fleet, store, gpusOf });
  const shown = await pages.serve();
  const close = async (): Promise<void> => {
    await fleet.close();
    await connector.close();
    await Promise.all([plane.close(), discovery.close(), pages.close()]);
  };
  return { fleet, shown, close };
}

/** How often workers are to tell what they serve, for a planner that ticks as often as its configuration says. */
export function rollupIntervalMs({ config }: Planner): number {
  return Math.max(200, Math.min(5000, config.tick_seconds * 1000));
}

async function plannerOf(settings: Settings<'planner'>): Promise<Planner> {
  const { plannerConnector: connector } = settings;
  const preset = {
    mode: 'agg',
    ...(connector === 'local' ? { start_seconds: LOCAL_START_S, rate_surge_worth: 0 } : {}),
  };
  const config = await readPlannerConfig(settings, preset, {}, lawOf(settings));
  if (connector === 'local' && config.mode !== 'agg') {
    throw new ConfigError([
      `--planner-connector local scales one pool: mode ${config.mode} of --planner-config; allowed: agg`,
    ]);
  }
  const dark = (['prefill', 'decode'] as const).find(
    (pool) => config.enable_power_awareness && isPlanned(config, pool) && wattsOf(pool, config, {}) === undefined,
  );
  if (dark !== undefined) {
    throw new ConfigError([`enable_power_awareness needs ${dark}_engine_watts: the watts of one worker`]);
  }
  return { config, engines: {} };
}

function isPlanned({ mode }: PlannerConfig, pool: Pool): boolean {
  return mode === 'disagg' || (mode === 'prefill') === (pool === 'prefill');
}

function connectorOf(
  { settings, env, clock, workersOf }: PlannerHost,
  namespace: string,
  config: PlannerConfig,
): Connector {
  if (workersOf !== undefined) return new LocalConnector(workersOf({ namespace, workersMax: workersMax(config) }));
  const keys = new FolderKeys(plannerFolder(settings, env), namespace);
  return new VirtualConnector({ keys, clock, waitMsMax: settings.scalingMaxWaitTimeSecs * 1000 });
}

/** Without a budget there may be two workers, if not more. */
function workersMax({ max_gpu_budget: gpusMax, decode_engine_num_gpu: gpus }: PlannerConfig): number {
  return gpusMax < 0 ? 2 : Math.floor(gpusMax / Math.max(1, gpus ?? 1));
}

function trafficOf(
  settings: Settings<'planner'>,
  namespace: string,
  model: () => string | undefined,
  clock: Clock,
  onProblem: (problem: string) => void,
) {
  const { prometheusEndpoint: url, prometheusToken: token } = settings;
  if (url === undefined) return undefined;
  const timeoutMs = settings.plannerPrometheusRequestTimeoutSeconds * 1000;
  const prefix = settings.metricsPrefix;
  const traffic = new PrometheusTraffic({ url, token, timeoutMs, clock, namespace, prefix, model, onProblem });
  return (signal: AbortSignal) => traffic.read(clock.wallMs() / 1000, signal);
}

/** Serves `/metrics` on loopback; undefined for port 0. @throws Error with one line where the port is taken */
async function serveMetrics(registry: MetricRegistry, port: number, clock: Clock): Promise<LoopbackServer | undefined> {
  if (port === 0) return undefined;
  const server = await serveLoopback(
    'metrics (PLANNER_PROMETHEUS_PORT)',
    port,
    (request, response) => {
      if (request.url !== '/metrics') {
        response.writeHead(404).end('only /metrics is here\n');
        return;
      }
      registry.render().then(
        (text) => response.writeHead(200, { 'content-type': registry.contentType }).end(text),
        () => response.writeHead(500).end(),
      );
    },
    clock,
  );
  return { ...server, url: `${server.url}/metrics` };
}

/** Other runs that write at the same time. */
const TRIES = 8;

/**
 * The store of a planner that begins anew with each run: in memory, and its decisions in `kept` too, where they can be asked for
 * afterwards. Several runs share `kept` and number their decisions together. What cannot be kept is told, and changes nothing else.
 */
export class KeptDecisions extends MemoryPlannerStore {
  readonly #kept: PlannerStore;
  readonly #logger: Logger;
  /** As they are in `kept`, by their number here; bounded by what a run decides. */
  readonly #records = new Map<number, DecisionRecord>();

  constructor(kept: PlannerStore, logger: Logger) {
    super();
    this.#kept = kept;
    this.#logger = logger;
  }

  override async commit(...args: Parameters<PlannerStore['commit']>): Promise<boolean> {
    const isDone = await super.commit(...args);
    const [group, { decision }, signal] = args;
    if (isDone && decision !== undefined) await this.#try(() => this.#keep(group, decision, signal));
    return isDone;
  }

  override async move(...args: Parameters<PlannerStore['move']>) {
    const next = await super.move(...args);
    const [group, { decisionId }, change, signal] = args;
    const record = this.#records.get(decisionId);
    if (next === undefined || record === undefined) return next;
    await this.#try(async () => {
      const moved = await this.#kept.move(group, record, change, signal);
      if (moved !== undefined) this.#records.set(decisionId, moved);
    });
    return next;
  }

  async #keep(group: string, decision: DecisionRecord, signal: AbortSignal): Promise<void> {
    for (let times = 0; times < TRIES; times++) {
      const version = (await this.#kept.readState(group, signal))?.version ?? 0;
      const record = { ...decision, decisionId: version };
      if (!(await this.#kept.commit(group, { version, state: '', decision: record }, signal))) continue;
      this.#records.set(decision.decisionId, record);
      return;
    }
    throw new Error('other planners write all the time');
  }

  async #try(work: () => Promise<void>): Promise<void> {
    await work().catch((thrown: unknown) => this.#logger.warn('a decision is not kept', { reason: reasonOf(thrown) }));
  }
}
