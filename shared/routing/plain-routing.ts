import { Lifetime } from '../concurrency/index.ts';
import type { EdgeSettings } from '../config/index.ts';
import { FollowedPools, type RoutableModel, type Worker } from '../pipeline/index.ts';
import type { Router, SimpleRouterMode } from '../router/index.ts';
import { SimpleRouter } from '../scheduler/index.ts';
import { type BusyLimits, BusyWorkers, WorkerLoads } from '../worker-events/index.ts';
import { followLoads, type OpenFeeds, openFeeds, type Routing, type RoutingDeps } from './feeds.ts';

/** Opens routing in a mode that does not look at caches. */
export function openPlainRouting(mode: SimpleRouterMode, settings: EdgeSettings, deps: RoutingDeps): Routing {
  const router = new SimpleRouter<Worker>({
    mode,
    inhibition: deps.inhibition,
    cudaToCpuRatio: settings.encoderCudaToCpuRatio,
    random: deps.random,
  });
  return new PlainRouting(router, deps);
}

/** Routes in such a mode, and follows the workers' loads if a busy limit needs them. */
class PlainRouting implements Routing {
  readonly router: Router<Worker>;
  readonly #pools: FollowedPools;
  readonly explanations = undefined;
  readonly #deps: RoutingDeps;
  readonly #lifetime = new Lifetime();
  readonly #loads = new WorkerLoads();
  readonly #busy: BusyWorkers;
  #models: readonly RoutableModel[] = [];
  /** Feeds, opened by the first request with a busy limit. Most frontends have no limit, and need no sockets. */
  #open: OpenFeeds | undefined;

  constructor(router: Router<Worker>, deps: RoutingDeps) {
    this.router = router;
    this.#pools = new FollowedPools(router);
    this.#deps = deps;
    this.#busy = new BusyWorkers(this.#loads, deps.clock);
  }

  busyWorkers(workers: readonly Worker[], limits: BusyLimits): ReadonlySet<string> | undefined {
    const busy = this.#busy.of(workers, limits);
    if (busy === undefined || this.#open !== undefined) return busy;
    const eventPlane = this.#deps.openEventPlane?.();
    this.#open = this.#lifetime.use(
      eventPlane && openFeeds(this.#deps, eventPlane, { loads: this.#loads, followsKvEvents: false }),
    );
    this.follow(this.#models);
    return busy;
  }

  reused(): void {}

  follow(models: readonly RoutableModel[]): void {
    this.#models = models;
    this.#pools.follow(models);
    if (this.#open !== undefined) followLoads(this.#open.feeds, models);
  }

  close(): Promise<void> {
    return this.#lifetime.close();
  }
}
