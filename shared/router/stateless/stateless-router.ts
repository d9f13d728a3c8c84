import type { Clock } from '../../clock/index.ts';
import type { FleetLoads } from '../../discovery/index.ts';
import type { AskedPlace, WorkerAsker } from '../quotes/index.ts';
import { keyOfText } from '../rendezvous.ts';
import { eligibleWorkers, Inhibition, pinnedIn, rankIn } from '../scheduler/eligibility.ts';
import { poolName } from '../scheduler/pool-name.ts';
import { hashPrompt } from '../scheduler/scheduling-request.ts';
import type { HashedPrompt, Reservation, RoutableWorker, RouteRequest, Router, WorkerPool } from '../types.ts';
import { conversationKey } from './conversation-key.ts';
import { StatelessDecider, type StatelessLook } from './stateless-decider.ts';

export interface StatelessRouterOptions<Worker extends RoutableWorker = RoutableWorker> {
  readonly clock: Clock;
  /** How long a worker that failed is passed over, 0 = never. @default 5000 */
  readonly inhibitedMs?: number;
  /** What workers say of themselves, about a second old. @default nothing: what this process has sent is the only known load */
  loads?(): FleetLoads;
  /** Asks workers what a prompt would cost there. @default nobody is asked */
  readonly asker?: AskOptions<Worker> | undefined;
}

export interface AskOptions<Worker extends RoutableWorker> {
  readonly asker: Pick<WorkerAsker<Worker>, 'place'>;
  /** Workers that one request asks at most. */
  readonly workersMax: number;
}

/**
 * What is left when no router answers and no index is fresh: hashing (`chooseStateless`). Every process decides alike, so that
 * conversations return to their worker. Where workers can be asked, hashing names a few and their answers decide.
 */
export function createStatelessRouter<Worker extends RoutableWorker>(
  options: StatelessRouterOptions<Worker>,
): Router<Worker> {
  return new StatelessRouter(options);
}

const NO_LOADS: FleetLoads = new Map();

class StatelessRouter<Worker extends RoutableWorker> implements Router<Worker> {
  readonly mode = 'kv';
  readonly #options: StatelessRouterOptions<Worker>;
  readonly #deciders = new Map<string, StatelessDecider<Worker>>(); // bounded by the models in discovery, two roles each
  readonly #inhibition: Inhibition;

  constructor(options: StatelessRouterOptions<Worker>) {
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
    if (isPinned || decider === undefined) return reservationOf(eligible[0] as Worker, rankIn(pool, routing)); // never empty
    return this.#decide(request, decider, eligible, signal);
  }

  inhibit(workerId: string): void {
    this.#inhibition.add(workerId);
  }

  forget(workerId: string): void {
    this.#inhibition.forget(workerId);
  }

  async #decide(
    request: RouteRequest,
    decider: StatelessDecider<Worker>,
    eligible: readonly Worker[],
    signal: AbortSignal,
  ): Promise<Reservation<Worker>> {
    const { id, pool, routing, messages, tokenIds } = request;
    const prompt = request.prompt ?? { tokens: tokenIds?.length ?? 0, hashes: hashPrompt(request, pool) };
    const { clock, loads } = this.#options;
    const mayTake = eligible === decider.workers ? undefined : new Set(eligible.map((worker) => worker.id));
    const said = routing.session_id ?? routing.prompt_cache_key;
    const conversation = said === undefined ? messages && conversationKey(messages) : keyOfText(said);
    const asked = { id, prompt, conversation };
    const look = decider.look(asked, loads?.() ?? NO_LOADS, clock.nowMs(), mayTake);
    if (look === undefined) return reservationOf(eligible[0] as Worker, rankIn(pool, routing)); // they all left this instant
    const place = await this.#ask(request, prompt, look, signal);
    signal.throwIfAborted();
    const worker = place?.worker ?? look.chosen();
    decider.sent(worker, asked, clock.nowMs());
    return reservationOf(worker, rankIn(pool, routing) ?? rankOf(place), place, pool.blockSizeTokens);
  }

  /** Where the workers say that it costs least; undefined where nobody is to be asked, or too few answer. */
  async #ask(
    { id, pool, routing }: RouteRequest,
    { tokens, hashes }: HashedPrompt,
    look: StatelessLook<Worker>,
    signal: AbortSignal,
  ): Promise<AskedPlace<Worker> | undefined> {
    const { asker: options } = this.#options;
    const { role, blockSizeTokens } = pool;
    if (options === undefined || role === 'decode' || blockSizeTokens === 0) return undefined;
    const { asker, workersMax } = options;
    const { sequence } = hashes;
    const prompt = { id, draw: look.preference, tokens, blockSizeTokens, sequence, dpRank: rankIn(pool, routing) };
    return asker.place(prompt, look.candidates(workersMax), signal);
  }
}

/** The rank that a place is at; undefined where the worker has but one, and nothing is to be said. */
function rankOf(place: AskedPlace<RoutableWorker> | undefined): number | undefined {
  return place !== undefined && place.worker.dataParallelSize > 1 ? place.dpRank : undefined;
}

/** Nothing is held here: workers say what they have. */
function reservationOf<Worker extends RoutableWorker>(
  worker: Worker,
  dpRank: number | undefined,
  { cachedTokens = 0 }: Partial<AskedPlace<Worker>> = {},
  blockSizeTokens = 1,
): Reservation<Worker> {
  const overlapBlocks = Math.floor(cachedTokens / blockSizeTokens);
  return { worker, dpRank, overlapBlocks, cachedTokens, prefillDone() {}, produced() {}, release() {} };
}
