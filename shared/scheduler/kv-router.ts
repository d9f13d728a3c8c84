import type { PrefixIndex } from '../block-index/index.ts';
import { RankTable } from '../block-index/index.ts';
import type { Clock, Random, Timer } from '../clock/index.ts';
import { workerError } from '../errors/index.ts';
import {
  type PoolRole,
  poolName,
  type Reservation,
  type RoutableWorker,
  type RouteRequest,
  type Router,
  RoutingError,
  rootOf,
  type WorkerPool,
} from '../router/index.ts';
import type { ReplicaShare } from './cost.ts';
import type { Inhibition } from './eligibility.ts';
import type { ExplanationRecord } from './explanation-record.ts';
import { type KvRouterConfig, kvRouterConfig, prefillPoolConfig } from './kv-config.ts';
import { type PoolMember, PoolMembers } from './pool-members.ts';
import { type PolicyConfig, profileFor } from './queue/policy-config.ts';
import { Scheduler } from './scheduler.ts';
import { hashedPrompt, SessionAffinity, type SessionAffinityOptions, schedulingRequest } from './scheduling-request.ts';
import type { TrackingHash } from './tracking-hash.ts';
import type { Decision, KvRouterObserver, PrefillDurationModel, QueuePlace, SchedulingRequest } from './types.ts';

export interface KvRouterOptions {
  readonly config: KvRouterConfig;
  readonly clock: Clock;
  readonly random: Random;
  /** Workers that failed lately. @default the router skips no worker */
  readonly inhibition?: Inhibition;
  /**
   * Returns the block index of a worker set. The router calls it once, when the set appears. The source of the index
   * numbers workers with `ranks` (`intern`, `find`) and stops for a rank after `removeRank`. Not called if the overlap
   * credit is 0.
   * @default no index: only load decides
   */
  readonly indexFor?: (pool: WorkerPool, ranks: RankTable) => PrefixIndex | undefined;
  /** Queue classes of a model (`parsePolicyConfig`). @default one class, with the settings of the configuration */
  readonly policies?: PolicyConfig | undefined;
  /** @default off */
  readonly sessionAffinity?: SessionAffinityOptions | undefined;
  /** Predicts the length of prefills, so that the load of the oldest one shrinks while it runs. @default none */
  readonly prefillDuration?: PrefillDurationModel | undefined;
  /** Names the blocks of running requests. @default by their public sequence hashes */
  readonly tracking?: TrackingHash | undefined;
  readonly observer?: KvRouterObserver | undefined;
  /** Returns the ranks of a worker set that this router prefers among equals. @default this router is the only one */
  readonly shareFor?: (pool: WorkerPool, ranks: RankTable) => ReplicaShare;
  /** Returns the milliseconds from a booking of another router until this one hears of it. @default 5 */
  readonly peerLagMs?: (() => number | undefined) | undefined;
  /** Tells other routers about the bookings of this one. @default it tells none */
  readonly peers?: PeerTeller | undefined;
}

/** Hears about every request that the router books. The calls are in the request's path. */
export interface PeerTeller {
  /** @param isProvisional whether the router will decide the request again, see `decidesTwice` */
  booked(pool: WorkerPool, decision: Decision, request: SchedulingRequest, isProvisional: boolean): void;
  /** Hears that the first token of a request came. At most once, before `ended`. */
  prefillDone(pool: WorkerPool, decision: Decision): void;
  /** Hears that a request left its worker, or goes to another one. Once for each call of `booked`. */
  ended(pool: WorkerPool, decision: Pick<Decision, 'requestId' | 'workerId' | 'dpRank'>): void;
  /** Hears that a request waits in the queue, until `booked` or, if it leaves without a worker, `ended`. */
  waits(pool: WorkerPool, place: QueuePlace, request: SchedulingRequest): void;
  /** Whether all other routers understand decisions that are made again, and places in the queue. */
  readonly decidesTwice: boolean;
}

/** One worker set of a KV router, with its adapters and its scheduler. */
export interface KvPool<Worker extends RoutableWorker = RoutableWorker> {
  /** Facts of the base model's set. */
  readonly pool: WorkerPool;
  /** Workers of the base model and of its adapters. */
  readonly workers: readonly Worker[];
  readonly ranks: RankTable;
  readonly index: PrefixIndex | undefined;
  readonly scheduler: Scheduler;
  /** Call it after a change that another router told to the scheduler: the queue may open at another time. */
  rearm(): void;
}

/** A pool with the state that only the router uses. */
interface LivePool<Worker extends RoutableWorker> extends KvPool<Worker> {
  readonly members: PoolMembers<Worker>;
  readonly affinity: SessionAffinity | undefined;
  readonly recheck: Timer;
  /** The next time at which the router checks the queue before the regular recheck; undefined = none is set. */
  next: { readonly atMs: number; readonly timer: Timer } | undefined;
}

/** The pool that decides the requests of one worker set, and the workers that may take them. */
interface Place<Worker extends RoutableWorker> {
  readonly pool: LivePool<Worker>;
  readonly member: PoolMember<Worker>;
}

/** Divisor of costs if the block size is unknown. Without blocks only the order of costs matters. */
const BLOCK_SIZE_UNKNOWN = 16;

/** The router of mode `kv`: one scheduler for each worker set. */
export class KvRouter<Worker extends RoutableWorker = RoutableWorker> implements Router<Worker> {
  readonly mode = 'kv';
  readonly #options: KvRouterOptions;
  readonly #pools = new Map<string, LivePool<Worker>>(); // bounded by the models in discovery, two roles each
  /** Places by worker set; adapters have their own beside those of their base models. */
  readonly #places = new Map<string, Place<Worker>>();
  readonly #heard: ReservationEvents<Worker>;

  /** @throws KvRouterConfigError for a configuration that contradicts itself */
  constructor(options: KvRouterOptions) {
    this.#options = { ...options, config: kvRouterConfig(options.config) };
    const { peers, observer, clock } = options;
    this.#heard = {
      clock,
      metrics: observer?.requests,
      progressed: ({ pool, decision }) => {
        peers?.prefillDone(pool.pool, decision);
        this.#arm(pool);
      },
      ended: ({ pool, decision, session }) => {
        peers?.ended(pool.pool, decision);
        if (session !== undefined) pool.affinity?.ended(session.id, session.set);
        this.#arm(pool);
      },
    };
  }

  /** Pools in the order in which their worker sets appeared, adapters with their base models. */
  get pools(): readonly KvPool<Worker>[] {
    return [...this.#pools.values()];
  }

  find(pool: WorkerPool): KvPool<Worker> | undefined {
    return this.#pools.get(poolName(rootOf(pool)));
  }

  /**
   * Sets the workers of a set. The router forgets the blocks and bookings of workers that are in no set of the pool any
   * more.
   */
  setWorkers(facts: WorkerPool, workers: readonly Worker[]): KvPool<Worker> {
    const root = rootOf(facts);
    const pool = this.#pools.get(poolName(root)) ?? this.#addPool(root);
    const member = pool.members.of(facts);
    if (pool.members.set(member, workers)) this.#replaceWorkers(pool);
    if (!this.#places.has(poolName(facts))) this.#places.set(poolName(facts), { pool, member });
    return pool;
  }

  choose(request: RouteRequest, signal: AbortSignal): Promise<Reservation<Worker>> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const place = this.#placeOf(request);
      const { pool, member } = place;
      const asked = this.#ask(request, pool, member);
      let leave = (): void => {};
      const telling = new BookingTeller(this.#options.peers, pool.pool, asked);
      const ticket = pool.scheduler.submit(asked, {
        ...(this.#options.peers?.decidesTwice === true && {
          booked: (decision: Decision) => {
            telling.booked(decision);
            this.#arm(pool);
          },
          waits: (place: QueuePlace) => telling.waits(place),
          withdrawn: () => telling.withdrawn(),
        }),
        decided: (decision) => {
          leave();
          telling.decided(decision);
          resolve(this.#reserve(decision, request, place));
        },
        rejected: (error) => {
          leave();
          telling.left();
          reject(error);
        },
      });
      if (!ticket.isWaiting) return;
      const { position } = ticket; // undefined if the router decides again in an instant
      const leaving = (position === undefined ? request.onHeld?.() : request.onQueued?.(position)) ?? signal;
      const end = (reason: unknown): void => {
        leave();
        ticket.cancel();
        telling.left();
        this.#arm(pool);
        reject(reason);
      };
      const giveUp = (): void => end(leaving.reason);
      leave = () => {
        leaving.removeEventListener('abort', giveUp);
        member.waits.delete(end);
      };
      leaving.addEventListener('abort', giveUp, { once: true });
      member.waits.add(end);
      if (leaving.aborted) giveUp();
      this.#arm(pool);
    });
  }

  /**
   * Explains the decision that would be made now, without booking. @throws ServeError for a wrong override or an
   * unknown pool
   */
  explain(request: RouteRequest): ExplanationRecord {
    const { pool, member } = this.#placeOf(request);
    return pool.scheduler.explain(this.#ask(request, pool, member));
  }

  /** Returns the explanation of the decision for one of the last requests. */
  explained(requestId: string): ExplanationRecord | undefined {
    const stages: { prefill?: ExplanationRecord; answer?: ExplanationRecord } = {};
    for (const { pool, scheduler } of this.#pools.values()) {
      const found = scheduler.explained(requestId);
      if (found !== undefined) stages[pool.role === 'prefill' ? 'prefill' : 'answer'] ??= found;
    }
    const { prefill, answer } = stages;
    return answer === undefined || prefill === undefined ? (answer ?? prefill) : { ...answer, prefill };
  }

  /**
   * Removes a worker set. Its index belongs to its owner, so the router leaves it alone. The pool stays for other sets
   * in it.
   */
  removePool(facts: WorkerPool): void {
    const pool = this.#pools.get(poolName(rootOf(facts)));
    if (pool === undefined) return;
    this.#places.delete(poolName(facts));
    pool.members.remove(facts, new RoutingError({ kind: 'SubscriberShutdown' }));
    if (pool.members.isEmpty) this.#endPool(pool);
    else this.#replaceWorkers(pool);
  }

  /** Rejects waiting requests and ends timers. Idempotent. */
  close(): void {
    for (const pool of [...this.#pools.values()]) this.#endPool(pool);
  }

  #endPool(pool: LivePool<Worker>): void {
    this.#pools.delete(poolName(pool.pool));
    for (const [name, place] of this.#places) if (place.pool === pool) this.#places.delete(name);
    pool.recheck.cancel();
    pool.next?.timer.cancel();
    pool.scheduler.close();
  }

  #placeOf({ pool }: RouteRequest): Place<Worker> {
    const known = this.#places.get(poolName(pool));
    if (known === undefined) throw workerError('Unavailable');
    return known;
  }

  #addPool(facts: WorkerPool): LivePool<Worker> {
    const pool = this.#makePool(facts);
    this.#pools.set(poolName(facts), pool);
    return pool;
  }

  #replaceWorkers(pool: LivePool<Worker>): void {
    pool.scheduler.setWorkers(pool.workers);
    this.#arm(pool);
  }

  #makePool(pool: WorkerPool): LivePool<Worker> {
    const { clock, random, observer, policies, sessionAffinity, prefillDuration, indexFor, shareFor, peerLagMs } =
      this.#options;
    const config = poolConfig(pool.role, this.#options.config);
    const ranks = new RankTable();
    const index = config.overlapScoreCredit === 0 ? undefined : indexFor?.(pool, ranks);
    const scheduler = new Scheduler({
      config,
      blockSizeTokens: pool.blockSizeTokens === 0 ? BLOCK_SIZE_UNKNOWN : pool.blockSizeTokens,
      ranks,
      index,
      clock,
      random,
      isDecodePool: pool.role === 'decode',
      policies: profileFor(policies, pool.model ?? pool.key, config),
      prefillDuration,
      observer: observer?.pool(pool),
      share: shareFor?.(pool, ranks),
      peerLagMs,
    });
    const affinity = sessionAffinity && new SessionAffinity(sessionAffinity, clock);
    const recheck = clock.every(scheduler.recheckMs, () => scheduler.tick());
    const members = new PoolMembers<Worker>();
    const live: LivePool<Worker> = {
      pool,
      members,
      get workers() {
        return members.all;
      },
      ranks,
      index,
      scheduler,
      affinity,
      recheck,
      next: undefined,
      rearm: () => this.#arm(live),
    };
    return live;
  }

  #ask(request: RouteRequest, { pool, affinity, members }: LivePool<Worker>, member: PoolMember<Worker>) {
    const { observer, clock, tracking, inhibition } = this.#options;
    const { workers } = member;
    const startMs = observer === undefined ? 0 : clock.nowMs();
    const prompt = hashedPrompt(request);
    const activeHashes = tracking?.activeHashes(request, pool, prompt.hashes);
    observer?.requests.hashed(clock.nowMs() - startMs);
    return schedulingRequest(request, prompt, {
      pool,
      workers,
      holders: members.narrowing(member),
      activeHashes,
      affinity,
      avoidedWorkers: inhibition === undefined ? request.avoided : inhibition.among(workers, request.avoided),
    });
  }

  #reserve(decision: Decision, request: RouteRequest, { pool, member }: Place<Worker>): Reservation<Worker> {
    // The scheduler chooses only among the workers that the router passed last for the pool.
    const worker =
      member.byId.get(decision.workerId) ?? (pool.workers.find(({ id }) => id === decision.workerId) as Worker);
    const { session_id: id, cache_ttl_ms: cacheTtlMs } = request.routing;
    const session = id === undefined ? undefined : { id, set: request.pool.key };
    if (session !== undefined) pool.affinity?.began(session.id, decision, cacheTtlMs, session.set);
    return new KvReservation(worker, { pool, decision, session }, this.#heard);
  }

  /** Sets a timer for the instant at which a request can leave by the passing of time. */
  #arm(pool: LivePool<Worker>): void {
    const atMs = pool.scheduler.nextTickMs;
    if (atMs === undefined || (pool.next !== undefined && pool.next.atMs <= atMs)) return;
    pool.next?.timer.cancel();
    const { clock } = this.#options;
    const timer = clock.after(Math.max(0, atMs - clock.nowMs()), () => {
      pool.next = undefined;
      pool.scheduler.tick();
      this.#arm(pool);
    });
    pool.next = { atMs, timer };
  }
}

/** Tells other routers about one request: its place in the queue, and the decisions for it. */
class BookingTeller {
  readonly #peers: PeerTeller | undefined;
  readonly #pool: WorkerPool;
  readonly #request: SchedulingRequest;
  /** Decision that the others know. */
  #told: Decision | undefined;
  /** Place in the queue that the others know. */
  #place: QueuePlace | undefined;

  constructor(peers: PeerTeller | undefined, pool: WorkerPool, request: SchedulingRequest) {
    this.#peers = peers;
    this.#pool = pool;
    this.#request = request;
  }

  waits(place: QueuePlace): void {
    this.#place = place;
    this.#peers?.waits(this.#pool, place, this.#request);
  }

  /** Tells that the request has left without a worker, if it had a place. */
  left(): void {
    if (this.#place !== undefined) this.#peers?.ended(this.#pool, this.#place);
    this.#place = undefined;
  }

  booked(decision: Decision): void {
    this.#told = decision;
    this.#place = undefined;
    this.#peers?.booked(this.#pool, decision, this.#request, true);
  }

  withdrawn(): void {
    if (this.#told !== undefined) this.#peers?.ended(this.#pool, this.#told);
    this.#told = undefined;
  }

  decided(decision: Decision): void {
    this.#place = undefined;
    if (this.#told === undefined) this.#peers?.booked(this.#pool, decision, this.#request, false);
  }
}

/** A request that is booked at a worker, until its release. */
interface Booked<Worker extends RoutableWorker> {
  readonly pool: LivePool<Worker>;
  readonly decision: Decision;
  /** Session of the request, and the key of its worker set. */
  readonly session: { readonly id: string; readonly set: string } | undefined;
}

/** Hears about a reservation after the scheduler has: load has changed, so the queue may open at another time. */
interface ReservationEvents<Worker extends RoutableWorker> {
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly metrics: KvRouterObserver['requests'] | undefined;
  progressed(booked: Booked<Worker>): void;
  ended(booked: Booked<Worker>): void;
}

class KvReservation<Worker extends RoutableWorker> implements Reservation<Worker> {
  readonly worker: Worker;
  readonly #booked: Booked<Worker>;
  readonly #events: ReservationEvents<Worker>;
  #isPrefilled = false;
  #isReleased = false; // a later request may carry the same id
  /** Time of the decision, then of each output. */
  #lastMs: number;
  #outputTokens = 0;

  constructor(worker: Worker, booked: Booked<Worker>, events: ReservationEvents<Worker>) {
    this.worker = worker;
    this.#booked = booked;
    this.#events = events;
    this.#lastMs = events.clock.nowMs();
  }

  get dpRank(): number {
    return this.#booked.decision.dpRank;
  }

  get overlapBlocks(): number {
    return Math.round(this.#booked.decision.effectiveOverlapBlocks);
  }

  get cachedTokens(): number {
    return this.#booked.decision.cachedTokens;
  }

  prefillDone(): void {
    if (this.#isReleased || this.#isPrefilled) return;
    this.#isPrefilled = true;
    const { pool, decision } = this.#booked;
    pool.scheduler.prefillDone(decision.requestId);
    this.#events.progressed(this.#booked);
    this.#events.metrics?.firstToken(this.#sinceLastMs());
  }

  produced(outputTokens: number): void {
    if (this.#isReleased) return;
    const { pool, decision } = this.#booked;
    pool.scheduler.produced(decision.requestId, outputTokens);
    const before = this.#outputTokens;
    this.#outputTokens = outputTokens;
    // the first output counts as the first token, even if it has more than one
    if (before === 0 || outputTokens <= before) return;
    this.#events.metrics?.tokens(this.#sinceLastMs(), outputTokens - before);
  }

  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    const { pool, decision } = this.#booked;
    pool.scheduler.free(decision.requestId, this.#outputTokens);
    this.#events.ended(this.#booked);
    this.#events.metrics?.ended(this.#outputTokens);
  }

  #sinceLastMs(): number {
    const beforeMs = this.#lastMs;
    this.#lastMs = this.#events.clock.nowMs();
    return this.#lastMs - beforeMs;
  }
}

/**
 * Adjusts the configuration to the role of a pool. Prefill pools keep no blocks. Decode pools have no prompts to
 * prefill, on which the cost model `stator` depends.
 */
function poolConfig(role: PoolRole, config: KvRouterConfig): KvRouterConfig {
  if (role === 'prefill') return prefillPoolConfig(config);
  return role === 'decode' ? { ...config, costModel: 'dynamo' } : config;
}
