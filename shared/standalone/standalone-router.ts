import { BlockIndex } from '../block-index/index.ts';
import { seededRandom, type TimeAndChance } from '../clock/index.ts';
import { Lifetime } from '../concurrency/index.ts';
import type { Discovery, DiscoveryEvent, EndpointRecord, ModelRecord, Watch } from '../discovery/index.ts';
import { callingPlane, eventPlane, openDiscovery, servingPlane } from '../fleet/index.ts';
import { type RequestPlane, silentObserver } from '../planes/index.ts';
import { InitialWorkers, type WorkerPool } from '../router/index.ts';
import { openFeeds, openRouterFiles, type RouterFiles } from '../routing/index.ts';
import { KvRouter, kvRouterConfigOf } from '../scheduler/index.ts';
import { createRouterMetrics, MetricRegistry, type ProcessLogger, type Tracer } from '../telemetry/index.ts';
import { indexSink, WorkerLoads } from '../worker-events/index.ts';
import { type EndpointWorker, PlaneRouter, STANDALONE_COMPONENT } from './plane-router.ts';
import type { ServiceSettings } from './service.ts';

/** Interval at which dropped blocks are freed, in slices of less than 1 ms. */
const HOUSEKEEPING_MS = 100;
const START_MS_MAX = 15_000;

/** A running router; it has no HTTP server. */
export interface RunningRouter {
  readonly instanceId: string;
  close(): Promise<void>;
}

/**
 * Starts the standalone router: `{namespace}.router.generate`, `.best_worker_id`, `.get_overlap_scores`.
 * @param signal ends the wait for the first workers
 * @param tracer makes a span for each request that is forwarded. @default no spans
 */
export async function startStandaloneRouter(
  settings: ServiceSettings,
  timeAndChance: TimeAndChance,
  logger: ProcessLogger,
  signal: AbortSignal,
  tracer?: Tracer,
): Promise<RunningRouter> {
  const asked = parseEndpointName(settings.routerEndpoint ?? '');
  if (asked === undefined) throw new Error('--endpoint must be namespace.component.endpoint: the workers to route to');
  const suffix = settings.namespaceWorkerSuffix; // the workers add it to their namespace
  const name = suffix === undefined ? asked : { ...asked, namespace: `${asked.namespace}-${suffix}` };
  const files = await openRouterFiles(settings);
  return Lifetime.compose((lifetime) =>
    openRouter(settings, { ...timeAndChance, name, logger, files, tracer, lifetime }, signal),
  );
}

interface StandaloneDeps extends Omit<PoolParts, 'discovery' | 'plane'> {
  readonly tracer: Tracer | undefined;
}

async function openRouter(
  settings: ServiceSettings,
  deps: StandaloneDeps,
  signal: AbortSignal,
): Promise<RunningRouter> {
  const { clock, random, name, logger, tracer, lifetime } = deps;
  const log = logger.for('requests');
  const serving = await lifetime.use(servingPlane(settings, clock, silentObserver, log));
  const plane = await lifetime.use(callingPlane(settings, clock, silentObserver, {}, log));
  const instanceId = random.instanceId();
  const server = await lifetime.use(serving.serve({ instanceId, signal: AbortSignal.timeout(START_MS_MAX) }));
  // After the listener, so that it closes before: no caller is sent to a listener that is gone.
  const discovery = await lifetime.use(openDiscovery(settings, logger.for('discovery')));
  const { router, pool, follow } = openPool(settings, { ...deps, discovery, plane });
  const initial = new InitialWorkers({ workersMin: settings.routerMinInitialWorkers, clock, signal });
  const workers = lifetime.use(
    new EndpointWorkers(name, (present) => {
      follow(present);
      initial.seen(present.length);
    }),
  );
  await workers.start(discovery, AbortSignal.timeout(START_MS_MAX));
  if (initial.pending !== undefined) logger.for('router').info('waiting for workers', { workers: initial.workersMin });
  if ((await initial.awaited) === 'late') {
    logger.for('router').warn('serving with fewer workers than configured', { workers: initial.workersMin });
  }
  const service = new PlaneRouter({ router, pool, plane, tracer });
  const { namespace } = name;
  lifetime.defer(() => server.drain()); // first: callers go elsewhere while the rest closes
  const endpoints = service.serve(server, instanceId, namespace);
  await server.reachable(AbortSignal.timeout(START_MS_MAX));
  for (const { endpoint, transport } of endpoints) {
    const address = { namespace, component: STANDALONE_COMPONENT, endpoint, instance_id: instanceId };
    await discovery.put({ type: 'Endpoint', ...address, transport }, AbortSignal.timeout(START_MS_MAX));
  }
  return { instanceId, close: () => lifetime.close() };
}

interface PoolParts extends TimeAndChance {
  readonly name: EndpointName;
  readonly discovery: Discovery;
  readonly plane: RequestPlane;
  readonly logger: ProcessLogger;
  readonly files: RouterFiles;
  readonly lifetime: Lifetime;
}

/** Returns the workers' router, its index, and the connections that feed it. */
function openPool(settings: ServiceSettings, parts: PoolParts) {
  const { name, discovery, logger, files, clock, random, lifetime } = parts;
  const config = kvRouterConfigOf(settings, files.policies?.settings);
  const key = `${name.namespace}.${name.component}.${name.endpoint}`;
  const pool: WorkerPool = { key, role: 'aggregated', blockSizeTokens: settings.routerBlockSize };
  const metrics = createRouterMetrics({
    registry: new MetricRegistry(),
    namespace: name.namespace,
    routerId: random.instanceId(),
    isKvMode: true,
  });
  const followsKvEvents = config.useKvEvents && config.overlapScoreCredit > 0;
  let index: BlockIndex | undefined;
  const router: KvRouter<EndpointWorker> = new KvRouter({
    config,
    ...files,
    clock,
    random: settings.routerSeed === undefined ? random : seededRandom(settings.routerSeed),
    indexFor: (_, ranks) => {
      index = new BlockIndex({ ranks, bytesMax: () => settings.indexMaxMb * 2 ** 20 });
      return index;
    },
  });
  const events = eventPlane(settings, clock, logger.for('events'), discovery);
  const { feeds } = lifetime.use(
    openFeeds({ ...parts, routerMetrics: metrics }, events, { loads: new WorkerLoads(), followsKvEvents }),
  );
  lifetime.use(router).setWorkers(pool, []);
  let hasWarned = false;
  const follow = (workers: readonly EndpointWorker[]): void => {
    const other = workers.find(({ blockSizeTokens: size = pool.blockSizeTokens }) => size !== pool.blockSizeTokens);
    if (other !== undefined && !hasWarned) {
      hasWarned = true;
      const sizes = { router: pool.blockSizeTokens, worker: other.blockSizeTokens };
      logger.for('router').warn('no cached blocks will be found: --router-block-size is not that of a worker', sizes);
    }
    const { ranks } = router.setWorkers(pool, workers);
    const sink = index && indexSink(index, ranks, (kind, status) => metrics.applied(kind, status));
    feeds.setWorkers(key, workers, sink);
  };
  lifetime.use(
    clock.every(HOUSEKEEPING_MS, () => index?.housekeep()),
    (housekeeping) => housekeeping.cancel(),
  );
  return { router, pool, follow };
}

/** The endpoint whose instances are routed to, `namespace.component.endpoint`. */
export interface EndpointName {
  readonly namespace: string;
  readonly component: string;
  readonly endpoint: string;
}

/** Returns undefined if the text is not `namespace.component.endpoint`; a namespace may contain dots. */
export function parseEndpointName(text: string): EndpointName | undefined {
  const [, namespace, component, endpoint] = /^(?:dyn:\/\/)?([^\s/]+)\.([^\s./]+)\.([^\s./]+)$/.exec(text) ?? [];
  if (namespace === undefined || component === undefined || endpoint === undefined) return undefined;
  return { namespace, component, endpoint };
}

/** The live instances of one endpoint with the data of their model cards, kept up to date. */
export class EndpointWorkers {
  readonly #name: EndpointName;
  readonly #onChange: (workers: readonly EndpointWorker[]) => void;
  readonly #endpoints = new Map<string, EndpointRecord>();
  readonly #cards = new Map<string, ModelRecord>();
  #workers: readonly EndpointWorker[] = [];
  #watches: readonly Watch[] = [];

  constructor(name: EndpointName, onChange: (workers: readonly EndpointWorker[]) => void) {
    this.#name = name;
    this.#onChange = onChange;
  }

  /** Reads the present set and follows changes. Rejects if discovery cannot be read. */
  async start(discovery: Discovery, signal: AbortSignal): Promise<void> {
    const prefix = Object.values(this.#name).join('/');
    this.#watches = await Promise.all([
      discovery.watch({ bucket: 'v1/instances', prefix }, { event: (event) => this.#applyEndpoint(event) }, signal),
      discovery.watch({ bucket: 'v1/mdc', prefix }, { event: (event) => this.#applyCard(event) }, signal),
    ]);
  }

  close(): void {
    for (const watch of this.#watches) watch.close();
  }

  #applyEndpoint(event: DiscoveryEvent): void {
    if (event.kind === 'removed') this.#endpoints.delete(event.key);
    else if (event.record.type === 'Endpoint') this.#endpoints.set(event.key, event.record);
    this.#rebuild();
  }

  #applyCard(event: DiscoveryEvent): void {
    if (event.kind === 'removed') this.#cards.delete(event.key);
    else if (event.record.type === 'Model' && event.record.model_suffix === undefined) {
      this.#cards.set(event.key, event.record);
    }
    this.#rebuild();
  }

  #rebuild(): void {
    const cards = new Map([...this.#cards.values()].map((record) => [record.instance_id, record]));
    this.#workers = [...this.#endpoints.values()].map((record) => workerOf(record, cards.get(record.instance_id)));
    this.#onChange(this.#workers);
  }
}

/** An instance without a card has one rank. */
function workerOf(endpoint: EndpointRecord, card: ModelRecord | undefined): EndpointWorker {
  const runtime = card?.card.runtime_config ?? {};
  return {
    id: endpoint.instance_id,
    transport: endpoint.transport,
    blockSizeTokens: card?.card.kv_cache_block_size,
    scope: { namespace: endpoint.namespace, component: endpoint.component },
    hasLocalIndexer: runtime.enable_local_indexer !== false,
    dataParallelStartRank: runtime.data_parallel_start_rank ?? 0,
    dataParallelSize: runtime.data_parallel_size ?? 1,
    totalKvBlocks: runtime.total_kv_blocks,
    maxNumBatchedTokens: runtime.max_num_batched_tokens,
    maxNumSeqs: runtime.max_num_seqs,
    deviceType: endpoint.device_type,
    taints: runtime.taints ?? [],
  };
}
