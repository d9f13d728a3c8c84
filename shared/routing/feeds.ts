/** Feeds of a router, in a file of their own so that a function without feeds does not load it. */
import type { CacheSummary } from '../block-index/index.ts';
import type { Clock, Random } from '../clock/index.ts';
import { Lifetime, Semaphore } from '../concurrency/index.ts';
import type { Discovery } from '../discovery/index.ts';
import type { SharedRouterState } from '../fleet/index.ts';
import type { ExplanationSource, RoutableModel, Worker } from '../pipeline/index.ts';
import type { EventPlane, RequestPlane } from '../planes/index.ts';
import type { Router, WorkerPool } from '../router/index.ts';
import type { Inhibition } from '../scheduler/index.ts';
import type { FrontendMetrics, ProcessLogger, RouterMetrics, Tracer } from '../telemetry/index.ts';
import {
  type BusyLimits,
  type ComponentScope,
  type EventSource,
  type LoadReport,
  RECOVERIES_AT_ONCE_MAX,
  RecoveryClient,
  WorkerFeeds,
  type WorkerLoads,
} from '../worker-events/index.ts';

/** Dependencies of routing. */
export interface RoutingDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly discovery: Discovery;
  /** Workers that failed lately. */
  readonly inhibition: Inhibition;
  /** Calls workers and other routers. */
  readonly plane: RequestPlane;
  /** Opens a plane on which a router answers other processes. */
  openServingPlane(): Promise<RequestPlane>;
  /** Opens the event plane once there is something to follow. Undefined on hosts that cannot follow events. */
  readonly openEventPlane: (() => EventPlane) | undefined;
  readonly metrics: FrontendMetrics;
  readonly routerMetrics: RouterMetrics;
  readonly logger: ProcessLogger;
  /** Creates the spans of decisions for other processes. @default no spans */
  readonly tracer?: Tracer | undefined;
  /** Returns the present busy limits of a model, by its primary name. */
  limitsOf(model: string): BusyLimits;
  /** Hears when this process begins and ends to answer for the fleet. @default none */
  readonly onAnswering?: ((isAnswering: boolean) => void) | undefined;
  /** State that routers share. @default none */
  readonly shared?: SharedRouterState | undefined;
}

/** Blocks that a worker has cached. */
export interface WorkerCache {
  /** `reported` by the worker, or `predicted` from the requests that it got. */
  readonly source: 'reported' | 'predicted';
  /** Its data-parallel ranks: at most the first 64. */
  readonly ranks: readonly (CacheSummary & { readonly dpRank: number })[];
}

/** Chooses workers for a frontend, and keeps itself informed of them. */
export interface Routing {
  readonly router: Router<Worker>;
  /** Explains why requests go to their workers; undefined in modes that do not look at caches. */
  readonly explanations: ExplanationSource | undefined;
  /** Returns the workers above the busy limits; undefined if no limit is set. */
  busyWorkers(workers: readonly Worker[], limits: BusyLimits): ReadonlySet<string> | undefined;
  /** Notes how many prompt tokens of a request a worker had cached, by the worker's own report. */
  reused(pool: WorkerPool, tokens: number): void;
  /**
   * Returns what a worker has cached; undefined if the index of this process does not have the worker. Rejects with the
   * signal's reason. Absent in modes without an index, and if another process keeps it.
   */
  readonly cacheOf?: ((workerId: string, signal: AbortSignal) => Promise<WorkerCache | undefined>) | undefined;
  /** Sets the present models, without aliases. */
  follow(models: readonly RoutableModel[]): void;
  /** Returns this router among others. Absent in modes without an index. */
  readonly peers?: (() => RouterPeers) | undefined;
  close(): Promise<void>;
}

/** A router among others. */
export interface RouterPeers {
  /** Id of this router, hex. */
  readonly routerId: string;
  /** Requests of each other router at the workers, by its id; undefined if routers do not tell each other. */
  readonly bookings: ReadonlyMap<string, number> | undefined;
}

/** The feeds of a process, and the event plane that they opened. */
export interface OpenFeeds {
  readonly feeds: WorkerFeeds;
  readonly eventPlane: EventPlane;
  close(): Promise<void>;
}

/** Follows workers over `eventPlane`, and closes it at its own end. */
export function openFeeds(
  deps: Pick<RoutingDeps, 'clock' | 'random' | 'discovery' | 'plane' | 'routerMetrics' | 'logger'>,
  eventPlane: EventPlane,
  options: {
    readonly loads: WorkerLoads;
    readonly followsKvEvents: boolean;
    /** Hears of every load report of a worker. */
    readonly onReport?: (report: LoadReport) => void;
    /** Returns the log of a component's events. @default none */
    readonly sourceOf?: ((scope: ComponentScope) => EventSource | undefined) | undefined;
  },
): OpenFeeds {
  const { discovery, plane, routerMetrics, logger, clock, random } = deps;
  const recovery = new RecoveryClient({
    plane,
    clock,
    random,
    onSkip: (reason) => routerMetrics.skipped(reason),
  });
  const lifetime = new Lifetime();
  lifetime.use(eventPlane);
  const feedsDeps = {
    eventPlane,
    discovery,
    recovery,
    slots: new Semaphore(RECOVERIES_AT_ONCE_MAX),
    clock,
    random,
    logger: logger.for('router'),
    observer: routerMetrics,
    sourceOf: options.sourceOf,
  };
  const feeds = lifetime.use(new WorkerFeeds(feedsDeps, options));
  return { feeds, eventPlane, close: () => lifetime.close() };
}

/** Follows only the loads of every model's workers. */
export function followLoads(feeds: WorkerFeeds, models: readonly RoutableModel[]): void {
  const keys = new Set(models.map(({ pool }) => pool.key));
  for (const key of feeds.keys) if (!keys.has(key)) feeds.setWorkers(key, [], undefined);
  for (const { pool, workers } of models) feeds.setWorkers(pool.key, workers, undefined);
}
