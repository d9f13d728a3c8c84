import { systemClock, systemRandom } from '../../shared/clock/index.ts';
import type { ExplanationSource, RoutableModel, Worker } from '../../shared/pipeline/index.ts';
import { type BusyLimits, BusyWorkers, WorkerLoads } from '../../shared/router/feed/index.ts';
import { createRouter, type Router, type WorkerPool } from '../../shared/router/index.ts';
import { createRouterMetrics, type RouterMetrics } from '../../shared/telemetry/index.ts';
import type { FrontendSettings, HostSettings } from './frontend.ts';
import { KvRouting } from './kv-routing.ts';
import { bucketsOf } from './metric-buckets.ts';
import { followLoads, type OpenFeeds, openFeeds, type RoutingParts } from './worker-feeds.ts';

/** How a frontend chooses workers, and what keeps it informed. */
export interface Routing {
  readonly router: Router;
  /** Why requests go where they go; undefined in modes that know nothing of caches. */
  readonly explanations: ExplanationSource | undefined;
  /** Workers above the busy limits; undefined where none is set. */
  busyWorkers(workers: readonly Worker[], limits: BusyLimits): ReadonlySet<string> | undefined;
  /** A worker says how many prompt tokens of a request it had cached. */
  reused(pool: WorkerPool, tokens: number): void;
  /** The models as they are now, aliases left out. */
  follow(models: readonly RoutableModel[]): void;
  close(): Promise<void>;
}

/**
 * The routing that the settings name.
 * @throws KvRouterConfigError for flags of the router that contradict each other
 */
export async function openRouting(
  settings: FrontendSettings & HostSettings,
  given: Omit<RoutingParts, 'routerMetrics'>,
): Promise<Routing> {
  const { routerMode: mode } = settings;
  const parts = { ...given, routerMetrics: openRouterMetrics(settings, given) };
  if (mode === 'kv') return openKvRouting(settings, parts);
  const router = createRouter({
    mode,
    inhibitedMs: settings.inhibitedDurationSecs * 1000,
    cudaToCpuRatio: settings.encoderCudaToCpuRatio,
    clock: systemClock,
    random: systemRandom,
  });
  return new PlainRouting(router, parts);
}

/**
 * Mode `kv` in the role that the settings name (design, section 3): by an index of this process, which a resident also
 * answers others from, or by asking residents. A host that can follow nothing asks.
 */
async function openKvRouting(settings: FrontendSettings & HostSettings, parts: RoutingParts): Promise<Routing> {
  const keepsIndex = parts.openEventPlane !== undefined;
  const { routerRole: role = keepsIndex ? 'embedded' : 'choose' } = settings;
  if (keepsIndex && (role === 'embedded' || role === 'resident')) {
    const routing = new KvRouting(settings, parts);
    if (role === 'resident') await routing.openResident(settings);
    return routing;
  }
  const { openChooseRouting } = await import('./choose-routing.ts');
  const asksResidents = role !== 'stateless';
  const embedded = keepsIndex && asksResidents ? new KvRouting(settings, parts) : undefined;
  return openChooseRouting(settings, parts, { asksResidents, embedded, state: parts.shared?.state });
}

function openRouterMetrics(
  settings: FrontendSettings,
  { metrics, logger }: Pick<RoutingParts, 'metrics' | 'logger'>,
): RouterMetrics {
  return createRouterMetrics({
    registry: metrics.registry,
    namespace: settings.namespace ?? 'dynamo',
    routerId: systemRandom.instanceId(),
    isKvMode: settings.routerMode === 'kv',
    buckets: bucketsOf(settings),
    logger: logger.for('metrics'),
  });
}

/** Modes that know nothing of caches; the workers' loads are followed where a busy limit needs them. */
class PlainRouting implements Routing {
  readonly router: Router;
  readonly explanations = undefined;
  readonly #parts: RoutingParts;
  readonly #loads = new WorkerLoads();
  readonly #busy = new BusyWorkers(this.#loads, systemClock);
  #models: readonly RoutableModel[] = [];
  /** Opened by the first request that meets a busy limit: most frontends have none, and pay for no sockets. */
  #open: OpenFeeds | undefined;

  constructor(router: Router, parts: RoutingParts) {
    this.router = router;
    this.#parts = parts;
  }

  busyWorkers(workers: readonly Worker[], limits: BusyLimits): ReadonlySet<string> | undefined {
    const busy = this.#busy.of(workers, limits);
    if (busy === undefined || this.#open !== undefined) return busy;
    this.#open = openFeeds(this.#parts, { loads: this.#loads, followsKvEvents: false });
    this.follow(this.#models);
    return busy;
  }

  reused(): void {}

  follow(models: readonly RoutableModel[]): void {
    this.#models = models;
    if (this.#open !== undefined) followLoads(this.#open.feeds, models);
  }

  async close(): Promise<void> {
    await this.#open?.close();
  }
}
