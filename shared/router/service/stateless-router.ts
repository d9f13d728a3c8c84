import type { Clock } from '../../clock/index.ts';
import { eligibleWorkers, Inhibition, pinnedIn, rankIn } from '../scheduler/eligibility.ts';
import { poolName } from '../scheduler/pool-name.ts';
import { chooseByRendezvous, type PrefixKey, prefixKeyOf, requestKeyOf } from '../scheduler/rendezvous.ts';
import { hashPrompt } from '../scheduler/scheduling-request.ts';
import { InFlight } from '../scheduler/simple-router.ts';
import type { FleetView } from '../state/index.ts';
import type { Reservation, RoutableWorker, RouteRequest, Router, WorkerPool } from '../types.ts';

/** What is known of the loads of a fleet: `FleetReader`. */
export interface FleetLoads {
  workersFor(prefix: PrefixKey, isSpill: boolean, signal: AbortSignal): Promise<FleetView>;
}

export interface StatelessRouterOptions {
  readonly clock: Clock;
  /** How long a worker that failed is passed over, 0 = never. @default 5000 */
  readonly inhibitedMs?: number;
  /** The fleet item of the worker set. @default none: the requests of this process are the only known load */
  fleetOf?(workers: readonly RoutableWorker[]): FleetLoads | undefined;
}

/**
 * Bounded-load rendezvous hashing of the first blocks over the eligible workers: what is left when no
 * router answers and no index is fresh. Every process decides alike without shared state, so that prefixes meet their worker.
 */
export function createStatelessRouter<Worker extends RoutableWorker>(options: StatelessRouterOptions): Router<Worker> {
  return new StatelessRouter(options);
}

const NOBODY: readonly never[] = [];

class StatelessRouter<Worker extends RoutableWorker> implements Router<Worker> {
  readonly mode = 'kv';
  readonly #pools = new Map<string, readonly Worker[]>(); // bounded by the models in discovery, two roles each
  readonly #options: StatelessRouterOptions;
  readonly #inhibition: Inhibition;
  readonly #inFlight = new InFlight();

  constructor(options: StatelessRouterOptions) {
    this.#options = options;
    this.#inhibition = new Inhibition(options.clock, options.inhibitedMs ?? 5000);
  }

  setWorkers(pool: WorkerPool, workers: readonly Worker[]): void {
    this.#pools.set(poolName(pool), workers);
  }

  removePool(pool: WorkerPool): void {
    this.#pools.delete(poolName(pool));
  }

  async choose(request: RouteRequest, signal: AbortSignal): Promise<Reservation<Worker>> {
    signal.throwIfAborted();
    const workers = this.#pools.get(poolName(request.pool)) ?? NOBODY;
    const eligible = eligibleWorkers(request, workers, this.#inhibition);
    const isPinned = pinnedIn(request.pool, request.routing) !== undefined;
    const worker =
      isPinned || eligible.length === 1 ? eligible[0] : await this.#pick(request, eligible, workers, signal);
    return this.#hold(worker as Worker, rankIn(request.pool, request.routing)); // `eligible` is never empty
  }

  inhibit(workerId: string): void {
    this.#inhibition.add(workerId);
  }

  forget(workerId: string): void {
    this.#inhibition.forget(workerId);
  }

  async #pick(
    request: RouteRequest,
    eligible: readonly Worker[],
    workers: readonly Worker[],
    signal: AbortSignal,
  ): Promise<Worker | undefined> {
    const key = keyOf(request);
    const fleet = this.#options.fleetOf?.(workers);
    for (const isSpill of fleet === undefined ? [] : [false, true]) {
      const view = await fleet?.workersFor(key, isSpill, signal);
      const worker = view && chooseByRendezvous(key, candidatesOf(view, eligible))?.worker;
      if (worker !== undefined) return worker;
    }
    const known = eligible.map((worker) => candidateOf(worker, this.#inFlight.of(worker.id)));
    return chooseByRendezvous(key, known)?.worker;
  }

  #hold(worker: Worker, dpRank: number | undefined): Reservation<Worker> {
    this.#inFlight.add(worker.id);
    let isHeld = true;
    return {
      worker,
      dpRank,
      overlapBlocks: 0,
      cachedTokens: 0,
      prefillDone() {},
      produced() {},
      release: () => {
        if (isHeld) this.#inFlight.remove(worker.id);
        isHeld = false;
      },
    };
  }
}

/** Those of `eligible` that the fleet item has and that take requests, with their loads. */
function candidatesOf<Worker extends RoutableWorker>({ workers }: FleetView, eligible: readonly Worker[]) {
  const byId = new Map(eligible.map((worker) => [worker.id, worker]));
  return workers.flatMap(({ id, isAvailable, load }) => {
    const worker = byId.get(id);
    return worker !== undefined && isAvailable ? [candidateOf(worker, load.requests)] : [];
  });
}

function candidateOf<Worker extends RoutableWorker>(worker: Worker, load: number) {
  return { id: worker.id, stableId: worker.stableId, load, worker };
}

function keyOf(request: RouteRequest): PrefixKey {
  const { pool, prompt, id } = request;
  return prefixKeyOf(prompt?.hashes ?? hashPrompt(request, pool)) ?? requestKeyOf(id);
}
