import type { Clock } from '../../clock/index.ts';
import type { FleetLoads } from '../../discovery/index.ts';
import { keyOfText } from '../rendezvous.ts';
import { eligibleWorkers, Inhibition, pinnedIn, rankIn } from '../scheduler/eligibility.ts';
import { poolName } from '../scheduler/pool-name.ts';
import { hashPrompt } from '../scheduler/scheduling-request.ts';
import type { Reservation, RoutableWorker, RouteRequest, Router, WorkerPool } from '../types.ts';
import { conversationKey } from './conversation-key.ts';
import { StatelessDecider } from './stateless-decider.ts';

export interface StatelessRouterOptions {
  readonly clock: Clock;
  /** How long a worker that failed is passed over, 0 = never. @default 5000 */
  readonly inhibitedMs?: number;
  /** What workers say of themselves, about a second old. @default nothing: what this process has sent is the only known load */
  loads?(): FleetLoads;
}

/**
 * What is left when no router answers and no index is fresh: hashing (`chooseStateless`). Every process decides alike, so that
 * conversations return to their worker.
 */
export function createStatelessRouter<Worker extends RoutableWorker>(options: StatelessRouterOptions): Router<Worker> {
  return new StatelessRouter(options);
}

const NO_LOADS: FleetLoads = new Map();

class StatelessRouter<Worker extends RoutableWorker> implements Router<Worker> {
  readonly mode = 'kv';
  readonly #options: StatelessRouterOptions;
  readonly #deciders = new Map<string, StatelessDecider<Worker>>(); // bounded by the models in discovery, two roles each
  readonly #inhibition: Inhibition;

  constructor(options: StatelessRouterOptions) {
    this.#options = options;
    this.#inhibition = new Inhibition(options.clock, options.inhibitedMs ?? 5000);
  }

  setWorkers(pool: WorkerPool, workers: readonly Worker[]): void {
    const decider = this.#deciders.get(poolName(pool)) ?? new StatelessDecider<Worker>(pool.blockSizeTokens);
    this.#deciders.set(poolName(pool), decider);
    decider.setWorkers(workers);
  }

  removePool(pool: WorkerPool): void {
    this.#deciders.delete(poolName(pool));
  }

  async choose(request: RouteRequest, signal: AbortSignal): Promise<Reservation<Worker>> {
    signal.throwIfAborted();
    const { pool, routing } = request;
    const decider = this.#deciders.get(poolName(pool));
    const workers = decider?.workers ?? [];
    const eligible = eligibleWorkers(request, workers, this.#inhibition);
    const isPinned = pinnedIn(pool, routing) !== undefined;
    const chosen = isPinned || decider === undefined ? undefined : this.#pick(request, decider, eligible);
    return reservationOf(chosen ?? (eligible[0] as Worker), rankIn(pool, routing)); // `eligible` is never empty
  }

  inhibit(workerId: string): void {
    this.#inhibition.add(workerId);
  }

  forget(workerId: string): void {
    this.#inhibition.forget(workerId);
  }

  #pick(request: RouteRequest, decider: StatelessDecider<Worker>, eligible: readonly Worker[]): Worker | undefined {
    const { id, pool, routing, messages, tokenIds } = request;
    const prompt = request.prompt ?? { tokens: tokenIds?.length ?? 0, hashes: hashPrompt(request, pool) };
    const { clock, loads } = this.#options;
    const mayTake = eligible === decider.workers ? undefined : new Set(eligible.map((worker) => worker.id));
    const said = routing.session_id ?? routing.prompt_cache_key;
    const conversation = said === undefined ? messages && conversationKey(messages) : keyOfText(said);
    return decider.choose({ id, prompt, conversation }, loads?.() ?? NO_LOADS, clock.nowMs(), mayTake);
  }
}

/** Nothing is held: workers say what they have. */
function reservationOf<Worker extends RoutableWorker>(worker: Worker, dpRank: number | undefined): Reservation<Worker> {
  return { worker, dpRank, overlapBlocks: 0, cachedTokens: 0, prefillDone() {}, produced() {}, release() {} };
}
