import type { Clock } from '../clock/index.ts';
import type { FleetLoads, WorkerLoad } from '../discovery/index.ts';
import {
  type HashedPrompt,
  keyOfText,
  poolName,
  type RendezvousKey,
  type Reservation,
  type RoutableWorker,
  type RouteRequest,
  type Router,
  seedOf,
  type WorkerPool,
} from '../router/index.ts';
import { eligibleWorkers, hashedPrompt, type Inhibition, pinnedIn, rankIn } from '../scheduler/index.ts';
import { candidatesOf, chooseStateless, type DemandedKey, type StatelessFleet } from './choose-stateless.ts';
import { conversationKey, PrefixDemand, type PromptLevels, promptLevels } from './prompt-keys.ts';
import type { AskedPlace, WorkerAsker } from './quotes/ask-workers.ts';

/** The parts of a request that the decision needs. */
export interface StatelessRequest {
  readonly id: string;
  readonly prompt: HashedPrompt;
  /**
   * Key that all turns of a conversation share, from the client or from its beginning; undefined = unknown. Other
   * conversations may have the same key.
   */
  readonly conversation: RendezvousKey | undefined;
}

/** Load of one request in addition to its prompt, in prompt tokens, because its part of each pass costs time, too. */
const REQUEST_TOKENS = 500;
/** Load above its share up to which the choice skips no worker. */
const SLACK_TOKENS = 8 * REQUEST_TOKENS;
/** Approximate age of the known loads. */
const VIEW_AGE_MS = 1000;
/** Prompt tokens that a worker computes, approximately, before its report of them arrives. */
const DRAINED_TOKENS = 50_000;
/**
 * Number of requests after which a process trusts what it has seen. Then a new beginning counts as a conversation's
 * own, and prompts are expected to be as long as those seen.
 */
const REQUESTS_TO_TRUST = 4;
/** Speed at which trust grows: after n requests a key counts as 1 / (1 + 16 n) of the traffic more than was seen. */
const TRUST_A_REQUEST = 16;
/**
 * Number of other conversations below which a key counts as having no other: less may be left of one counted long ago.
 */
const ANOTHER = 0.5;

/** A request that this process has sent, and that its worker may not have reported yet. */
interface Sent {
  readonly worker: number;
  readonly tokens: number;
  readonly atMs: number;
}

/**
 * Prompt tokens that a worker computes in about 15 ms. Asking takes longer, so shorter prompts ask no worker. Short
 * prompts among long ones do ask, because they would wait behind those.
 */
const ASKED_TOKENS_MIN = 1000;
/** Number of recent prompts in the mean length. */
const RECENT = 16;

const NOTHING_SAID: FleetLoads = new Map();

/** The possible places of one request at the time of the question. */
interface StatelessLook<Worker> {
  /** Returns the worker that takes it. */
  chosen(): Worker;
  /**
   * Returns the workers that are worth asking, at most `count`. The one that takes the request comes first. Returns
   * none if asking costs more than it may save.
   */
  candidates(count: number): readonly Worker[];
}

/**
 * Decides for one pool of workers by hashing. It uses only what its process sees: its own requests, and loads about a
 * second old.
 */
export class StatelessDecider<Worker extends RoutableWorker> {
  readonly #demand = new PrefixDemand();
  readonly #blockSizeTokens: number;
  #workers: readonly Worker[] = [];
  #all = new Uint32Array(0);
  #fleet: StatelessFleet = { ids: [], seeds: new Uint32Array(0), loads: new Float64Array(0) };
  /** Reports from which the loads of the fleet were computed. Requests sent since are added to them. */
  #said = NOTHING_SAID;
  /** Sent requests in the order of their sending. Those before `sentFrom` are in the workers' reports. */
  #sent: Sent[] = [];
  #sentFrom = 0;
  #prompts = 0;
  /** Mean length of the recent prompts. */
  #meanTokens = 0;

  constructor(blockSizeTokens: number) {
    this.#blockSizeTokens = blockSizeTokens;
  }

  get workers(): readonly Worker[] {
    return this.#workers;
  }

  setWorkers(workers: readonly Worker[]): void {
    if (workers === this.#workers) return;
    this.#workers = workers;
    this.#all = Uint32Array.from(workers, (_, at) => at);
    this.#fleet = {
      ids: workers.map(({ id }) => id),
      seeds: Uint32Array.from(workers, ({ id, stableId }) => seedOf(stableId ?? id)),
      loads: new Float64Array(workers.length),
    };
    this.#said = NOTHING_SAID;
    this.#sent = []; // the numbers now belong to other workers
    this.#sentFrom = 0;
  }

  /**
   * Returns the possible places of the request; undefined if there is no worker. Counts the request, so call it once
   * for each.
   * @param said loads of the workers, the same map until there are others
   * @param mayTake ids of the workers that may take it. @default all
   */
  look(
    request: StatelessRequest,
    said: FleetLoads,
    nowMs: number,
    mayTake?: ReadonlySet<string>,
  ): StatelessLook<Worker> | undefined {
    const { ids } = this.#fleet;
    const open = mayTake === undefined ? this.#all : this.#all.filter((at) => mayTake.has(ids[at] as string));
    if (open.length === 0) return undefined;
    this.#hear(said);
    this.#forgetSent(nowMs);
    const levels = this.#demanded(promptLevels(request.prompt, this.#blockSizeTokens, request.conversation));
    const ask = { levels, draw: keyOfText(request.id), slack: SLACK_TOKENS };
    const isWorthAsking = this.#noteLength(request.prompt.tokens);
    const workers = this.#workers;
    const fleet = this.#fleet;
    const choose = (): number => chooseStateless(ask, fleet, open);
    return {
      chosen: () => workers[choose()] as Worker,
      candidates: (count) => {
        if (!isWorthAsking) return [];
        const first = choose();
        const others = Array.from(candidatesOf(ask, fleet, open, count)).filter((at) => at !== first);
        return [first, ...others].slice(0, count).map((at) => workers[at] as Worker);
      },
    };
  }

  /** Returns whether asking may save more than it costs. It may as long as few prompts were seen. */
  #noteLength(tokens: number): boolean {
    this.#prompts++;
    this.#meanTokens += (tokens - this.#meanTokens) / Math.min(this.#prompts, RECENT);
    return this.#prompts < REQUESTS_TO_TRUST || Math.max(tokens, this.#meanTokens) >= ASKED_TOKENS_MIN;
  }

  /** Adds the load of the request to its worker. Has no effect if the worker has left meanwhile. */
  sent({ id }: Pick<Worker, 'id'>, { prompt }: StatelessRequest, nowMs: number): void {
    const worker = this.#fleet.ids.indexOf(id);
    if (worker < 0) return;
    const sent = { worker, tokens: prompt.tokens, atMs: nowMs };
    this.#sent.push(sent);
    this.#weigh(sent, 1);
  }

  /**
   * Returns the share of the traffic of each key: the share that was seen, plus a margin that is large after few
   * requests.
   */
  #demanded(levels: PromptLevels): readonly DemandedKey[] {
    const demand = this.#demand;
    const feared = 1 / (1 + TRUST_A_REQUEST * demand.requests);
    const isTrusted = demand.requests >= REQUESTS_TO_TRUST;
    const isFirst = demand.requests === 0;
    demand.note(levels);
    const { conversation, keys } = levels;
    if (conversation !== undefined && !isFirst && demand.othersWith(conversation) < ANOTHER)
      return [{ key: conversation, share: 0, isOwn: true }];
    return keys.map((key) => {
      const others = demand.othersWith(key);
      const isOwn = isTrusted && others < ANOTHER;
      return { key, share: Math.min(1, others / demand.conversations + feared), isOwn };
    });
  }

  #hear(said: FleetLoads): void {
    if (said === this.#said) return;
    this.#said = said;
    this.#workers.forEach(({ id, dataParallelSize }, at) => {
      this.#fleet.loads[at] = loadOf(said.get(id), dataParallelSize);
    });
    for (const sent of this.#sent.slice(this.#sentFrom)) this.#weigh(sent, 1);
  }

  #forgetSent(nowMs: number): void {
    for (; this.#sentFrom < this.#sent.length; this.#sentFrom++) {
      const oldest = this.#sent[this.#sentFrom] as Sent;
      if (oldest.atMs > nowMs - VIEW_AGE_MS) break;
      this.#weigh(oldest, -1);
    }
    if (this.#sentFrom < this.#sent.length / 2) return;
    this.#sent = this.#sent.slice(this.#sentFrom);
    this.#sentFrom = 0;
  }

  #weigh({ worker, tokens }: Sent, sign: 1 | -1): void {
    const ranks = this.#workers[worker]?.dataParallelSize ?? 1;
    this.#fleet.loads[worker]! += (sign * (REQUEST_TOKENS + tokens)) / ranks;
  }
}

/** Returns the prompt tokens that a rank of the worker has before it. Each request counts as some more. */
function loadOf(said: WorkerLoad | undefined, ranks: number): number {
  if (said === undefined) return 0;
  if (said.isDraining) return Number.POSITIVE_INFINITY;
  let load = 0;
  for (const { requests, prefillTokens } of said.ranks) {
    load += REQUEST_TOKENS * requests + Math.max(0, prefillTokens - DRAINED_TOKENS);
  }
  return load / ranks;
}

export interface StatelessRouterOptions<Worker extends RoutableWorker = RoutableWorker> {
  readonly clock: Clock;
  readonly inhibition: Inhibition;
  /**
   * Returns the loads in the workers' reports, about a second old. @default none: only the requests of this process
   * count as load
   */
  loads?(): FleetLoads;
  /** Asks workers for quotes. @default no worker is asked */
  readonly asker?: AskOptions<Worker> | undefined;
}

export interface AskOptions<Worker extends RoutableWorker> {
  readonly asker: Pick<WorkerAsker<Worker>, 'place'>;
  /** Bound of the workers that one request asks. */
  readonly workersMax: number;
}

/**
 * Routes if no router answers and no index is fresh, by hashing (`chooseStateless`). Every process decides alike, so
 * that conversations return to their worker. If workers can be asked, hashing names a few and their answers decide.
 */
export class StatelessRouter<Worker extends RoutableWorker = RoutableWorker> implements Router<Worker> {
  readonly mode = 'kv';
  readonly #options: StatelessRouterOptions<Worker>;
  /** Bounded by the models in discovery, with two roles each. */
  readonly #deciders = new Map<string, StatelessDecider<Worker>>();

  constructor(options: StatelessRouterOptions<Worker>) {
    this.#options = options;
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
    const eligible = eligibleWorkers(request, workers, this.#options.inhibition);
    const isPinned = pinnedIn(pool, routing) !== undefined;
    // The list is never empty.
    if (isPinned || decider === undefined) return reservationOf(eligible[0] as Worker, rankIn(pool, routing));
    return this.#decide(request, decider, eligible, signal);
  }

  async #decide(
    request: RouteRequest,
    decider: StatelessDecider<Worker>,
    eligible: readonly Worker[],
    signal: AbortSignal,
  ): Promise<Reservation<Worker>> {
    const { id, pool, routing, messages } = request;
    const prompt = hashedPrompt(request);
    const { clock, loads } = this.#options;
    const mayTake = eligible === decider.workers ? undefined : new Set(eligible.map((worker) => worker.id));
    const said = routing.session_id ?? routing.prompt_cache_key;
    const conversation = said === undefined ? messages && conversationKey(messages) : keyOfText(said);
    const asked = { id, prompt, conversation };
    const look = decider.look(asked, loads?.() ?? NOTHING_SAID, clock.nowMs(), mayTake);
    // All workers left in this instant.
    if (look === undefined) return reservationOf(eligible[0] as Worker, rankIn(pool, routing));
    const place = await this.#ask(request, prompt, look, signal);
    signal.throwIfAborted();
    const worker = place?.worker ?? look.chosen();
    decider.sent(worker, asked, clock.nowMs());
    return reservationOf(worker, rankIn(pool, routing) ?? rankOf(place), place, pool.blockSizeTokens);
  }

  /**
   * Returns the place that costs least according to the workers; undefined if no worker should be asked, or too few
   * answer.
   */
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
    const workers = look.candidates(workersMax);
    const [home] = workers;
    if (home === undefined) return undefined;
    const prompt = { id, homeId: home.id, tokens, blockSizeTokens, sequence, dpRank: rankIn(pool, routing) };
    return asker.place(prompt, workers, signal);
  }
}

/** Returns the rank of a place; undefined if the worker has only one, which the request need not name. */
function rankOf(place: AskedPlace<RoutableWorker> | undefined): number | undefined {
  return place !== undefined && place.worker.dataParallelSize > 1 ? place.dpRank : undefined;
}

/** Returns a reservation that holds nothing here, because workers report their load themselves. */
function reservationOf<Worker extends RoutableWorker>(
  worker: Worker,
  dpRank: number | undefined,
  { cachedTokens = 0 }: Partial<AskedPlace<Worker>> = {},
  blockSizeTokens = 1,
): Reservation<Worker> {
  const overlapBlocks = Math.floor(cachedTokens / blockSizeTokens);
  return { worker, dpRank, overlapBlocks, cachedTokens, prefillDone() {}, produced() {}, release() {} };
}
