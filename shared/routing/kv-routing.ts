import {
  ApproximateIndex,
  type ApproximateIndexOptions,
  BlockIndex,
  IndexMemory,
  type PrefixIndex,
  predictingIndex,
  type RankTable,
  summarizeCache,
} from '../block-index/index.ts';
import { type Clock, seededRandom, type Timer } from '../clock/index.ts';
import type { Lifetime } from '../concurrency/index.ts';
import type { EdgeSettings } from '../config/index.ts';
import type { ExplanationSource, RoutableModel, Worker } from '../pipeline/index.ts';
import { poolName, type Router, rootOf, type WorkerPool } from '../router/index.ts';
import type { ComponentPool } from '../router-state/index.ts';
import { KvRouter, type KvRouterConfig, kvRouterConfigOf, RendezvousShare } from '../scheduler/index.ts';
import type { RouterPoolMetrics, RouterWorkerType } from '../telemetry/index.ts';
import {
  type BlockChangeSink,
  type BusyLimits,
  BusyWorkers,
  type ComponentScope,
  indexSink,
  type LoadReport,
  WorkerLoads,
} from '../worker-events/index.ts';
import {
  type OpenFeeds,
  openFeeds,
  type RouterPeers,
  type Routing,
  type RoutingDeps,
  type WorkerCache,
} from './feeds.ts';
import type { RemoteIndexes } from './remote-indexes.ts';
import { Replicas } from './replicas.ts';
import type { Resident } from './resident.ts';
import type { RouterFiles } from './router-files.ts';
import type { IndexServer, RouterServer } from './router-server.ts';

/** Interval at which dropped blocks are freed, in slices of less than 1 ms. It is shorter while there is much to do. */
const HOUSEKEEPING_MS = 100;
const BUSY_HOUSEKEEPING_MS = 10;
const MIB = 2 ** 20;
/** Ranks of a worker whose caches are summarized. */
const SUMMARIZED_RANKS_MAX = 64;

/** State of one worker set in addition to its scheduler. */
interface Fed {
  readonly metrics: RouterPoolMetrics;
  /** Index of the blocks that the workers report; undefined without KV events. */
  readonly index?: BlockIndex;
  /** Sink that fills it. */
  readonly sink?: BlockChangeSink;
  /** Index of the blocks that the workers should hold according to the router's own decisions. */
  readonly predictions?: ApproximateIndex;
}

/** Options of a `KvRouting`, in addition to those of all routing. */
interface KvRoutingOptions {
  /** Contents of the files that the settings name. */
  readonly files: RouterFiles;
  /**
   * Opens the indexes of other processes.
   * @param isRecording whether these indexes have only routing decisions
   * @default this process keeps indexes of its own
   */
  readonly openRemote?: ((isRecording: boolean) => RemoteIndexes) | undefined;
  /** Lifetime of everything that the routing opens. */
  readonly lifetime: Lifetime;
}

/** Routes in mode `kv`: an index for each worker set, filled by its workers' events, and the scheduler that uses it. */
export class KvRouting implements Routing {
  readonly router: Router<Worker>;
  readonly explanations: ExplanationSource;
  readonly #kv: KvRouter<Worker>;
  readonly #config: KvRouterConfig;
  readonly #deps: RoutingDeps;
  readonly #lifetime: Lifetime;
  readonly #fed = new Map<string, Fed>();
  readonly #memory: IndexMemory;
  readonly #loads = new WorkerLoads();
  readonly #busy: BusyWorkers;
  readonly #clock: Clock;
  readonly #open: OpenFeeds | undefined;
  readonly #stalenessMs: number;
  /** Time of the last load report of each worker. */
  readonly #heardMs = new Map<string, number>();
  #resident: Resident | undefined;
  #indexServer: IndexServer | undefined;
  readonly #remote: RemoteIndexes | undefined;
  readonly #routerId: string;
  readonly #replicas: Replicas | undefined;
  /** Shares by worker set, if several routers place requests. */
  readonly #shares = new Map<string, RendezvousShare>();
  #peerIds: readonly string[] = [];
  #housekeeping: Timer;
  #workerIds: ReadonlySet<string> = new Set();
  #models: readonly RoutableModel[] = [];

  /** @throws KvRouterConfigError for flags that contradict each other */
  constructor(settings: EdgeSettings, deps: RoutingDeps, { files, openRemote, lifetime }: KvRoutingOptions) {
    const { routerMetrics, metrics, clock, random } = deps;
    const { policies } = files;
    this.#deps = deps;
    this.#lifetime = lifetime;
    this.#clock = clock;
    this.#routerId = random.instanceId();
    this.#busy = new BusyWorkers(this.#loads, clock);
    this.#config = kvRouterConfigOf(settings, policies?.settings);
    const remote = this.#config.overlapScoreCredit > 0 ? openRemote?.(!this.#config.useKvEvents) : undefined;
    this.#remote = lifetime.use(remote);
    const keepsIndex = this.#remote === undefined && this.#config.overlapScoreCredit > 0;
    const followsKvEvents = this.#config.useKvEvents && keepsIndex;
    const { shared } = deps;
    const eventPlane = deps.openEventPlane?.();
    this.#open = lifetime.use(
      eventPlane &&
        openFeeds(deps, eventPlane, {
          loads: this.#loads,
          followsKvEvents,
          onReport: (report) => this.#heard(report),
          sourceOf: shared && ((scope) => shared.sourceOf(eventPlane, scope, () => this.#poolsOf(scope))),
        }),
    );
    if (settings.routerReplicaSync && eventPlane !== undefined) {
      this.#replicas = lifetime.use(
        new Replicas({
          ...deps,
          watch: shared?.watch,
          eventPlane,
          routerId: this.#routerId,
          onPeers: (routerIds) => this.#setPeers(routerIds),
          pools: () => this.#kv.pools,
        }),
      );
    }
    const { routerSessionAffinityTtlSecs: affinitySecs, routerSessionAffinityMode: affinityMode } = settings;
    const kv: KvRouter<Worker> = new KvRouter({
      config: this.#config,
      ...files,
      clock,
      random: settings.routerSeed === undefined ? random : seededRandom(settings.routerSeed),
      inhibition: deps.inhibition,
      indexFor: (pool, ranks) => this.#indexFor(pool, ranks),
      ...(affinitySecs === undefined ? {} : { sessionAffinity: { ttlMs: affinitySecs * 1000, mode: affinityMode } }),
      peers: this.#replicas,
      ...(settings.routerReplicaSync && {
        shareFor: (pool: WorkerPool, ranks: RankTable) => this.#shareFor(pool, ranks),
        peerLagMs: () => this.#replicas?.lagMs,
      }),
      observer: { pool: (pool) => this.#fedOf(pool).metrics, requests: routerMetrics },
    });
    this.#kv = lifetime.use(kv);
    this.router = this.#remote?.asking(this.#kv) ?? this.#kv;
    this.explanations = {
      explained: async (requestId) => this.#kv.explained(requestId),
      explain: async (request) => this.#kv.explain((await this.#remote?.ask(request)) ?? request),
    };
    this.#stalenessMs = settings.indexStalenessMs;
    const indexes = () => [...this.#fed.values()].flatMap(({ index, predictions }) => [index, predictions]);
    this.#memory = new IndexMemory(settings.indexMaxMb * MIB, indexes);
    metrics.registry.beforeScrape(() => this.#showState());
    this.#housekeeping = this.#clock.after(HOUSEKEEPING_MS, () => this.#keepHouse());
    lifetime.defer(() => this.#housekeeping.cancel());
  }

  #keepHouse(): void {
    let isMore = false;
    for (const { index, predictions } of this.#fed.values()) {
      if (index?.housekeep()) isMore = true;
      if (predictions?.housekeep()) isMore = true;
    }
    const pauseMs = isMore ? BUSY_HOUSEKEEPING_MS : HOUSEKEEPING_MS;
    this.#housekeeping = this.#clock.after(pauseMs, () => this.#keepHouse());
  }

  busyWorkers(workers: readonly Worker[], limits: BusyLimits): ReadonlySet<string> | undefined {
    return this.#busy.of(workers, limits);
  }

  reused(pool: WorkerPool, tokens: number): void {
    this.#fedOf(pool).metrics.reused(tokens);
  }

  peers(): RouterPeers {
    return { routerId: this.#routerId, bookings: this.#replicas?.bookings };
  }

  async cacheOf(workerId: string, signal: AbortSignal): Promise<WorkerCache | undefined> {
    for (const { pool, ranks } of this.#kv.pools) {
      const { index, predictions } = this.#fedOf(pool);
      const kept = index ?? predictions;
      const numbers = ranks.ranksOf(workerId).slice(0, SUMMARIZED_RANKS_MAX);
      if (kept === undefined || numbers.length === 0) continue;
      const summaries: WorkerCache['ranks'][number][] = [];
      for (const rank of numbers) {
        const dpRank = ranks.dpRankOf(rank);
        summaries.push({ dpRank, ...(await summarizeCache(kept.dump(rank), signal)) });
      }
      return { source: index === undefined ? 'predicted' : 'reported', ranks: summaries };
    }
    return undefined;
  }

  follow(models: readonly RoutableModel[]): void {
    const present = new Set(models.map(({ pool }) => poolName(pool)));
    const before = this.#kv.pools;
    for (const { pool } of this.#models) if (!present.has(poolName(pool))) this.#kv.removePool(pool);
    for (const { pool } of before) if (this.#kv.find(pool) === undefined) this.#forget(pool);
    this.#models = models;
    for (const { pool, workers } of models) this.#kv.setWorkers(pool, workers);
    for (const { pool, workers } of this.#kv.pools) {
      const followed = workers.filter(({ publishesKvEvents }) => publishesKvEvents);
      this.#open?.feeds.setWorkers(poolName(pool), followed, this.#fedOf(pool).sink);
    }
    this.#replicas?.follow(models);
    this.#remote?.follow(models);
    this.#showWorkers(models);
    this.#indexServer?.follow(models);
  }

  #heard({ workerId, arrivedRequests, leftRequests }: LoadReport): void {
    this.#heardMs.set(workerId, this.#clock.nowMs());
    this.#resident?.service.reported(workerId, arrivedRequests, leftRequests);
  }

  /**
   * Starts to answer other processes: as a resident router, or with its index, or both. The routing closes the server
   * at its own end. Rejects if discovery cannot be written.
   */
  async serve(settings: EdgeSettings, server: RouterServer, isResident: boolean): Promise<void> {
    this.#lifetime.use(server);
    const deps = { ...this.#deps, server, kv: this.#kv, models: () => this.#models };
    if (isResident) {
      const { openResident } = await import('./resident.ts');
      const resident = openResident(settings, {
        ...deps,
        router: this.router,
        asksFirst: this.#remote !== undefined,
        state: deps.shared?.state,
        busyWorkers: ({ workers, primaryName }) => this.#busy.of(workers, deps.limitsOf(primaryName)),
      });
      this.#resident = await this.#lifetime.use(resident);
    }
    if (this.#config.serveIndexer) {
      const { IndexServer } = await import('./router-server.ts');
      const isRecording = !this.#config.useKvEvents;
      this.#indexServer = new IndexServer({ ...deps, isRecording, logger: deps.logger.for('router') });
    }
  }

  /** Whether every reported cache is known, and a worker has sent a report within the staleness bound. */
  isFresh(pool: WorkerPool): boolean {
    if (this.#remote !== undefined) return this.#remote.isServed(pool);
    if (this.#open?.feeds.isSettled !== true) return false;
    const workers = this.#models.find((model) => poolName(model.pool) === poolName(pool))?.workers ?? [];
    const oldestMs = this.#clock.nowMs() - this.#stalenessMs;
    // Dynamo's workers report their load only when it changes, so their silence says nothing.
    return workers.some(
      ({ id, scope }) =>
        scope.endpoint !== undefined || (this.#heardMs.get(id) ?? Number.NEGATIVE_INFINITY) >= oldestMs,
    );
  }

  close(): Promise<void> {
    return this.#lifetime.close();
  }

  /** Returns the worker sets whose events come, wholly or in part, from one component. */
  #poolsOf({ namespace, component }: ComponentScope): readonly ComponentPool[] {
    return this.#kv.pools.flatMap(({ pool, workers }) => {
      const { index } = this.#fedOf(pool);
      const publishing = workers.filter(({ publishesKvEvents }) => publishesKvEvents);
      const own = publishing.filter(
        ({ scope }) => scope.namespace === namespace && scope.component === component && scope.endpoint === undefined,
      );
      if (index === undefined || own.length === 0) return [];
      const isWhole = own.length === publishing.length;
      return [{ name: poolName(pool), workerIds: new Set(own.map(({ id }) => id)), isWhole, index }];
    });
  }

  #shareFor(pool: WorkerPool, ranks: RankTable): RendezvousShare {
    const share = new RendezvousShare(ranks, this.#routerId);
    share.setOthers(this.#peerIds);
    this.#shares.set(poolName(pool), share);
    return share;
  }

  #setPeers(routerIds: readonly string[]): void {
    this.#peerIds = routerIds;
    for (const share of this.#shares.values()) share.setOthers(routerIds);
  }

  /** Returns the feeds of a worker set. Adapters share those of their base model. */
  #fedOf(facts: WorkerPool): Fed {
    const pool = rootOf(facts);
    const name = poolName(pool);
    const known = this.#fed.get(name);
    if (known !== undefined) return known;
    const { routerMetrics } = this.#deps;
    const metrics = routerMetrics.pool(pool.model ?? pool.key, workerTypeOf(pool), pool.role);
    const fed: Fed = { metrics };
    this.#fed.set(name, fed);
    return fed;
  }

  #indexFor(pool: WorkerPool, ranks: RankTable): PrefixIndex | undefined {
    const { metrics } = this.#fedOf(pool);
    const { routerMetrics } = this.#deps;
    const { useKvEvents, approximateCachePolicy: policy, ttlMs, predictedTtlMs } = this.#config;
    const onEvicted = (blocks: number): void => metrics.indexEvicted(blocks);
    const predict = (by: Pick<ApproximateIndexOptions, 'policy' | 'ttlMs'>): ApproximateIndex =>
      this.#memory.bound((bytesMax) => new ApproximateIndex({ ...by, ranks, clock: this.#clock, bytesMax, onEvicted }));
    const remote = this.#remote?.indexFor(pool, ranks);
    if (remote === undefined && !useKvEvents) {
      const predictions = predict({ policy, ttlMs });
      this.#fed.set(poolName(pool), { metrics, predictions });
      return predictions;
    }
    const keep = (bytesMax: () => number) => new BlockIndex({ ranks, bytesMax, onEvicted });
    const own = remote === undefined ? this.#memory.bound(keep) : undefined;
    const sink = own && indexSink(own, ranks, (type, status) => routerMetrics.applied(type, status));
    const fed: Fed = { metrics, ...(own && sink && { index: own, sink }) };
    const index: PrefixIndex | undefined = own ?? remote;
    if (predictedTtlMs === undefined || index === undefined) {
      this.#fed.set(poolName(pool), fed);
      return index;
    }
    const predictions = predict({ policy: 'ttl', ttlMs: predictedTtlMs });
    this.#fed.set(poolName(pool), { ...fed, predictions });
    return predictingIndex(index, predictions);
  }

  #forget(pool: WorkerPool): void {
    this.#open?.feeds.setWorkers(poolName(pool), [], undefined);
    this.#remote?.forget(pool);
    this.#fed.delete(poolName(pool));
    this.#shares.delete(poolName(pool));
  }

  /** Updates the series of workers, and removes those of workers that left. */
  #showWorkers(models: readonly RoutableModel[]): void {
    const { metrics, routerMetrics } = this.#deps;
    const present = new Set<string>();
    for (const { pool, workers } of models) {
      for (const { id, dataParallelStartRank: start, dataParallelSize: size } of workers) {
        present.add(id);
        if (this.#workerIds.has(id)) continue;
        for (let rank = start; rank < start + size; rank++) routerMetrics.registered(id, rank, workerTypeOf(pool));
      }
    }
    for (const id of this.#workerIds) {
      if (present.has(id)) continue;
      routerMetrics.unregistered(id);
      metrics.removeWorker(id);
      this.#resident?.service.workerGone(id);
      this.#heardMs.delete(id);
    }
    this.#workerIds = present;
  }

  /** Registers the values that are computed when metrics are read. */
  #showState(): void {
    const { metrics, routerMetrics } = this.#deps;
    let duplicates = 0;
    for (const { pool, scheduler } of this.#kv.pools) {
      const workerType = workerTypeOf(pool);
      for (const load of scheduler.loads()) {
        const { workerId, dpRank, activeDecodeBlocks, activePrefillTokens } = load;
        metrics.setWorker({ workerId, dpRank, workerType }, { activeDecodeBlocks, activePrefillTokens });
      }
      const { index, predictions, metrics: own } = this.#fedOf(pool);
      own.indexBlocks((index ?? predictions)?.blockCount ?? 0);
      own.indexBytes((index?.bytes ?? 0) + (predictions?.bytes ?? 0));
      const bounded = index ?? predictions;
      if (bounded !== undefined) own.indexBytesAllowed(this.#memory.leftFor(bounded));
      duplicates += index?.duplicateBlocks ?? 0;
    }
    routerMetrics.duplicates(duplicates);
  }
}

/** Returns the worker type for metrics. Aggregated workers count as decode workers. */
function workerTypeOf({ role }: WorkerPool): RouterWorkerType {
  return role === 'prefill' ? 'prefill' : 'decode';
}
