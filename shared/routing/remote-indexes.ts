import type { RankTable } from '../block-index/index.ts';
import type { Watch } from '../discovery/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { RoutableModel } from '../pipeline/index.ts';
import {
  poolName,
  type RoutableWorker,
  type RouteRequest,
  type Router,
  rootOf,
  type WorkerPool,
} from '../router/index.ts';
import {
  askIndex,
  askingRouter,
  createRemoteIndexMetrics,
  type IndexerAddress,
  RemoteIndex,
  type RemoteIndexObserver,
  watchIndexers,
} from '../router-service/index.ts';
import type { RoutingDeps } from './feeds.ts';

const WATCH_MS_MAX = 15_000;
/** Deadline of the index look-up for an explanation. Operators wait for it, so it may be longer than for requests. */
const EXPLAIN_MS_MAX = 2000;

/** Indexers of one component, from discovery. */
interface Followed {
  indexers: readonly IndexerAddress[];
  readonly watch: Promise<Watch | undefined>;
}

/** Block indexes that other processes keep (`--use-remote-indexer`). */
export class RemoteIndexes {
  readonly #deps: RoutingDeps;
  readonly #isRecording: boolean;
  readonly #observer: RemoteIndexObserver;
  readonly #indexes = new Map<string, RemoteIndex>(); // by worker set, as the router has them
  readonly #components = new Map<string, Followed>(); // bounded by the components of the fleet
  /** Components of the workers of a worker set and of its adapters. */
  readonly #componentsOf = new Map<string, Set<string>>();

  /** @param isRecording whether the indexers have only decisions, so that this process reports its own to them */
  constructor(deps: RoutingDeps, isRecording: boolean) {
    this.#deps = deps;
    this.#isRecording = isRecording;
    this.#observer = createRemoteIndexMetrics(deps.metrics.registry, deps.routerMetrics.routerId);
  }

  indexFor(pool: WorkerPool, ranks: RankTable): RemoteIndex {
    const { plane, clock, random } = this.#deps;
    const index = new RemoteIndex({
      plane,
      clock,
      random,
      ranks,
      model: pool.model ?? pool.key,
      indexers: () => this.#indexersOf(pool),
      isRecording: this.#isRecording,
      observer: this.#observer,
    });
    this.#indexes.set(poolName(pool), index);
    return index;
  }

  /** Returns a router that asks an indexer before it passes a request to `router`. */
  asking<Worker extends RoutableWorker>(router: Router<Worker>): Router<Worker> {
    return askingRouter(router, this.#indexOf);
  }

  /** Whether a process serves the index of the worker set. */
  isServed(pool: WorkerPool): boolean {
    return this.#indexersOf(pool).length > 0;
  }

  /** Returns a request for an explanation, after asking the index about it. */
  ask(request: RouteRequest): Promise<RouteRequest> {
    return askIndex(request, this.#indexOf, AbortSignal.timeout(EXPLAIN_MS_MAX));
  }

  follow(models: readonly RoutableModel[]): void {
    this.#componentsOf.clear();
    for (const { pool, workers } of models) {
      const root = poolName(rootOf(pool));
      const components = this.#componentsOf.get(root) ?? new Set<string>();
      this.#componentsOf.set(root, components);
      for (const { scope } of workers) {
        const name = `${scope.namespace}/${scope.component}`;
        components.add(name);
        if (!this.#components.has(name)) this.#watch(name, scope);
      }
    }
  }

  forget(pool: WorkerPool): void {
    this.#indexes.delete(poolName(pool));
    this.#componentsOf.delete(poolName(pool));
  }

  async close(): Promise<void> {
    const watches = await Promise.all([...this.#components.values()].map(({ watch }) => watch));
    for (const watch of watches) watch?.close();
  }

  readonly #indexOf = (pool: WorkerPool): RemoteIndex | undefined => this.#indexes.get(poolName(rootOf(pool)));

  #indexersOf(pool: WorkerPool): readonly IndexerAddress[] {
    const components = [...(this.#componentsOf.get(poolName(rootOf(pool))) ?? [])];
    return components.flatMap((name) => this.#components.get(name)?.indexers ?? []);
  }

  /** Follows a component. If that fails, the next change of the models tries again. */
  #watch(name: string, scope: RoutableModel['workers'][number]['scope']): void {
    const { discovery, logger } = this.#deps;
    const onChange = (indexers: readonly IndexerAddress[]): void => {
      followed.indexers = indexers;
    };
    const watch = watchIndexers(discovery, scope, onChange, AbortSignal.timeout(WATCH_MS_MAX)).catch((error) => {
      this.#components.delete(name);
      logger.for('router').warn('indexers cannot be looked up', { component: name, reason: reasonOf(error) });
      return undefined;
    });
    const followed: Followed = { indexers: [], watch };
    this.#components.set(name, followed);
  }
}
