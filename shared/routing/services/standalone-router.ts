import { type Clock, type Random, seededRandom } from '../../clock/index.ts';
import type { Discovery } from '../../discovery/index.ts';
import { eventPlane } from '../../fleet/events/index.ts';
import { callingPlane, openDiscovery, servingPlane } from '../../fleet/index.ts';
import { type RequestPlane, silentObserver } from '../../planes/request/index.ts';
import { type BlockIndex, createBlockIndex } from '../../router/block-index/index.ts';
import { indexSink, WorkerLoads } from '../../router/feed/index.ts';
import { InitialWorkers, type WorkerPool } from '../../router/index.ts';
import { createKvRouter, type KvRouter, kvRouterConfigOf } from '../../router/scheduler/index.ts';
import {
  type EndpointName,
  type EndpointWorker,
  EndpointWorkers,
  PlaneRouter,
  parseEndpointName,
  STANDALONE_COMPONENT,
} from '../../router/standalone/index.ts';
import { createRouterMetrics, MetricRegistry, type ProcessLogger } from '../../telemetry/index.ts';
import { type RouterFiles, readRouterFiles } from '../router-files.ts';
import { openFeeds } from '../worker-feeds.ts';
import type { ServiceSettings } from './service-settings.ts';

/** Dropped blocks are given back in slices of less than 1 ms, this often. */
const HOUSEKEEPING_MS = 100;
const START_MS_MAX = 15_000;

/** Time and chance of a process. */
interface Chance {
  readonly clock: Clock;
  readonly random: Random;
}

/** A router that serves; it has no HTTP of its own. */
export interface RunningRouter {
  readonly instanceId: string;
  close(): Promise<void>;
}

/**
 * The standalone router: `{namespace}.router.generate`, `.best_worker_id`, `.get_overlap_scores`.
 * @param signal ends the wait for the first workers
 */
export async function startStandaloneRouter(
  settings: ServiceSettings,
  logger: ProcessLogger,
  signal: AbortSignal,
  { clock, random }: Chance,
): Promise<RunningRouter> {
  const asked = parseEndpointName(settings.routerEndpoint ?? '');
  if (asked === undefined) throw new Error('--endpoint must be namespace.component.endpoint: the workers to route to');
  const suffix = settings.namespaceWorkerSuffix; // the workers have it on their namespace
  const name = suffix === undefined ? asked : { ...asked, namespace: `${asked.namespace}-${suffix}` };
  const files = await readRouterFiles(settings);
  const discovery = await openDiscovery(settings, logger.for('discovery'));
  const plane = await callingPlane(settings, silentObserver, {}, logger.for('requests'));
  const serving = await servingPlane(settings, silentObserver, logger.for('requests'));
  const instanceId = random.instanceId();
  const server = await serving.serve({ instanceId, signal: AbortSignal.timeout(START_MS_MAX) });
  const { router, pool, follow, close } = openPool(settings, { name, discovery, plane, logger, files, clock, random });
  const initial = new InitialWorkers({ workersMin: settings.routerMinInitialWorkers, clock, signal });
  const workers = new EndpointWorkers(name, (present) => {
    follow(present);
    initial.seen(present.length);
  });
  await workers.start(discovery, AbortSignal.timeout(START_MS_MAX));
  if (initial.pending !== undefined) logger.for('router').info('waiting for workers', { workers: initial.workersMin });
  if ((await initial.awaited) === 'late') {
    logger.for('router').warn('serving with fewer workers than asked for', { workers: initial.workersMin });
  }
  const service = new PlaneRouter({ router, pool, plane, workers: () => workers.workers });
  const { namespace } = name;
  for (const { endpoint, transport } of service.serve(server, instanceId, namespace)) {
    const address = { namespace, component: STANDALONE_COMPONENT, endpoint, instance_id: instanceId };
    await discovery.put({ type: 'Endpoint', ...address, transport }, AbortSignal.timeout(START_MS_MAX));
  }
  return {
    instanceId,
    close: async () => {
      server.drain();
      workers.close();
      await close();
      await discovery.close();
      await Promise.all([server.close(), plane.close(), serving.close()]);
    },
  };
}

interface PoolParts extends Chance {
  readonly name: EndpointName;
  readonly discovery: Discovery;
  readonly plane: RequestPlane;
  readonly logger: ProcessLogger;
  readonly files: RouterFiles;
}

/** The workers' router, its index, and what feeds it. */
function openPool(settings: ServiceSettings, parts: PoolParts) {
  const { name, discovery, logger, files, clock, random } = parts;
  const config = kvRouterConfigOf(settings, files.policies?.settings);
  const key = `${name.namespace}.${name.component}.${name.endpoint}`;
  const pool: WorkerPool = { key, role: 'aggregated', blockSizeTokens: settings.routerBlockSize };
  const metrics = createRouterMetrics({
    registry: new MetricRegistry(),
    namespace: name.namespace,
    routerId: random.instanceId(),
    isKvMode: true,
    logger: logger.for('metrics'),
  });
  const followsKvEvents = config.useKvEvents && config.overlapScoreCredit > 0;
  let index: BlockIndex | undefined;
  const router: KvRouter = createKvRouter({
    config,
    ...files,
    clock,
    random: settings.routerSeed === undefined ? random : seededRandom(settings.routerSeed),
    indexFor: (_, ranks) => {
      index = createBlockIndex({ ranks, bytesMax: () => settings.indexMaxMb * 2 ** 20 });
      return index;
    },
  });
  const { feeds, close: closeFeeds } = openFeeds(
    { ...parts, routerMetrics: metrics },
    eventPlane(settings, logger.for('events'), discovery),
    { loads: new WorkerLoads(), followsKvEvents },
  );
  let hasWarned = false;
  const follow = (workers: readonly EndpointWorker[]): void => {
    const other = workers.find(({ blockSizeTokens: size = pool.blockSizeTokens }) => size !== pool.blockSizeTokens);
    if (other !== undefined && !hasWarned) {
      hasWarned = true;
      const sizes = { router: pool.blockSizeTokens, worker: other.blockSizeTokens };
      logger.for('router').warn('nothing cached will be found: --router-block-size is not that of a worker', sizes);
    }
    const { ranks } = router.setWorkers(pool, workers);
    const sink = index && indexSink(index, ranks, (kind, status) => metrics.applied(kind, status));
    feeds.setWorkers(key, workers, sink);
  };
  const housekeeping = clock.every(HOUSEKEEPING_MS, () => index?.housekeep());
  const close = async (): Promise<void> => {
    housekeeping.cancel();
    router.close();
    await closeFeeds();
  };
  return { router, pool, follow, close };
}
