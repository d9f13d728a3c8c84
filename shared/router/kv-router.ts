import type { Timer } from '../clock/index.ts';
import { type KvRouterConfig, kvRouterConfig, prefillPoolConfig } from './config/kv-config.ts';
import { Inhibition } from './eligibility/inhibition.ts';
import type { KvPool, KvRouter, KvRouterOptions } from './kv-router-types.ts';
import { profileFor } from './queue/policy-config.ts';
import { RankTable } from './rank-table.ts';
import { createScheduler } from './scheduler/scheduler.ts';
import type { Decision, Explanation, SchedulableWorker, SchedulingRequest } from './scheduler/scheduler-types.ts';
import { hashPrompt, schedulingRequest } from './scheduler/scheduling-request.ts';
import { SessionAffinity } from './session-affinity.ts';
import type { PoolRole, Reservation, RoutableWorker, RouteRequest, WorkerPool } from './types.ts';

const names = new WeakMap<Pick<WorkerPool, 'role' | 'key'>, string>();

/**
 * The router of mode `kv`.
 * @throws KvRouterConfigError for a configuration that contradicts itself
 */
export function createKvRouter(options: KvRouterOptions): KvRouter {
  return new PooledKvRouter(options);
}

/** A pool with what the router itself keeps of it. */
interface LivePool extends KvPool {
  /** The workers as `setWorkers` told them last, by which a new list is told from one seen before. */
  listed: readonly RoutableWorker[];
  byId: ReadonlyMap<string, RoutableWorker>;
  readonly affinity: SessionAffinity | undefined;
  readonly recheck: Timer;
  /** Set while the queue is to be looked at before the next recheck. */
  next: { readonly atMs: number; readonly timer: Timer } | undefined;
}

/** Divides costs where nobody says how large blocks are; without blocks only the order matters. */
const BLOCK_SIZE_UNKNOWN = 16;

class PooledKvRouter implements KvRouter {
  readonly mode = 'kv';
  readonly #options: KvRouterOptions;
  readonly #pools = new Map<string, LivePool>(); // bounded by the models in discovery, two roles each
  readonly #inhibition: Inhibition;
  readonly #heard: ReservationEvents;

  constructor(options: KvRouterOptions) {
    this.#options = { ...options, config: kvRouterConfig(options.config) };
    const { peers } = options;
    this.#heard = {
      progressed: ({ pool, decision }) => {
        peers?.prefillDone(pool.pool, decision);
        this.#arm(pool);
      },
      ended: ({ pool, decision, sessionId }) => {
        peers?.ended(pool.pool, decision);
        if (sessionId !== undefined) pool.affinity?.ended(sessionId);
        this.#arm(pool);
      },
    };
    this.#inhibition = new Inhibition(options.clock, options.inhibitedMs ?? 5000);
  }

  get pools(): readonly KvPool[] {
    return [...this.#pools.values()];
  }

  setWorkers(facts: WorkerPool, workers: readonly RoutableWorker[]): LivePool {
    const pool = this.#pools.get(poolName(facts)) ?? this.#addPool(facts);
    if (pool.listed !== workers) this.#replaceWorkers(pool, workers);
    return pool;
  }

  choose<Worker extends RoutableWorker>(
    request: RouteRequest,
    workers: readonly Worker[],
    signal: AbortSignal,
  ): Promise<Reservation<Worker>> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const pool = this.#poolOf(request, workers);
      const asked = this.#ask(request, pool);
      let leave = (): void => {};
      const ticket = pool.scheduler.submit(asked, {
        decided: (decision) => {
          leave();
          resolve(this.#reserve<Worker>(decision, request, asked, pool));
        },
        rejected: (error) => {
          leave();
          reject(error);
        },
      });
      if (!ticket.isWaiting) return;
      if (request.onQueued !== undefined) request.onQueued(ticket.position ?? 0);
      const giveUp = (): void => {
        ticket.cancel();
        this.#arm(pool);
        reject(signal.reason);
      };
      leave = () => signal.removeEventListener('abort', giveUp);
      signal.addEventListener('abort', giveUp, { once: true });
      this.#arm(pool);
    });
  }

  explain(request: RouteRequest, workers: readonly RoutableWorker[]): Explanation {
    const pool = this.#poolOf(request, workers);
    return pool.scheduler.explain(this.#ask(request, pool));
  }

  explained(requestId: string): Explanation | undefined {
    const legs: { prefill?: Explanation; answer?: Explanation } = {};
    for (const { pool, scheduler } of this.#pools.values()) {
      const found = scheduler.explained(requestId);
      if (found !== undefined) legs[pool.role === 'prefill' ? 'prefill' : 'answer'] ??= found;
    }
    const { prefill, answer } = legs;
    return answer === undefined || prefill === undefined ? (answer ?? prefill) : { ...answer, prefill };
  }

  inhibit(workerId: string): void {
    this.#inhibition.add(workerId);
  }

  forget(workerId: string): void {
    this.#inhibition.forget(workerId);
  }

  removePool(key: string): void {
    for (const [name, pool] of this.#pools) {
      if (pool.pool.key !== key) continue;
      this.#pools.delete(name);
      pool.recheck.cancel();
      pool.next?.timer.cancel();
      pool.scheduler.close();
    }
  }

  close(): void {
    for (const { pool } of [...this.#pools.values()]) this.removePool(pool.key);
  }

  #poolOf(request: RouteRequest, workers: readonly RoutableWorker[]): LivePool {
    if (request.pool === undefined) throw new TypeError('mode kv needs to know the worker set of a request');
    // The list may be older than what `setWorkers` told since: the caller may have waited for something after it read it.
    return this.#pools.get(poolName(request.pool)) ?? this.setWorkers(request.pool, workers);
  }

  #addPool(facts: WorkerPool): LivePool {
    const pool = this.#makePool(facts);
    this.#pools.set(poolName(facts), pool);
    return pool;
  }

  #replaceWorkers(pool: LivePool, workers: readonly RoutableWorker[]): void {
    pool.listed = workers;
    pool.byId = new Map(workers.map((worker) => [worker.id, worker]));
    pool.scheduler.setWorkers(workers.map(toSchedulable));
    this.#arm(pool);
  }

  #makePool(pool: WorkerPool): LivePool {
    const { clock, random, observer, policies, sessionAffinity, prefillDuration, explainedMax, indexFor, shareFor } =
      this.#options;
    const config = poolConfig(pool.role, this.#options.config);
    const ranks = new RankTable();
    const index = config.overlapScoreCredit === 0 ? undefined : indexFor?.(pool, ranks);
    const scheduler = createScheduler({
      config,
      blockSizeTokens: pool.blockSizeTokens === 0 ? BLOCK_SIZE_UNKNOWN : pool.blockSizeTokens,
      ranks,
      index,
      clock,
      random,
      isDecodePool: pool.role === 'decode',
      policies: profileFor(policies, pool.model ?? pool.key, config),
      prefillDuration,
      ...(explainedMax === undefined ? {} : { explainedMax }),
      observer: observer?.pool?.(pool),
      share: shareFor?.(pool, ranks),
    });
    const affinity = sessionAffinity && new SessionAffinity(sessionAffinity, clock);
    const recheck = clock.every(scheduler.recheckMs, () => scheduler.tick());
    return { pool, ranks, index, scheduler, affinity, recheck, listed: [], byId: new Map(), next: undefined };
  }

  #ask(request: RouteRequest, live: LivePool) {
    const { observer, clock, tracking } = this.#options;
    const { pool, listed: workers, affinity } = live;
    const startMs = observer?.hashed === undefined ? 0 : clock.nowMs();
    const hashes = hashPrompt(request, pool);
    const activeHashes = tracking?.activeHashes(request, pool, hashes);
    observer?.hashed?.(clock.nowMs() - startMs);
    return schedulingRequest(request, hashes, {
      pool,
      workers,
      activeHashes,
      affinity,
      avoidedWorkers: this.#avoided(workers, request),
    });
  }

  #avoided(workers: readonly RoutableWorker[], { avoided }: RouteRequest): ReadonlySet<string> | undefined {
    if (this.#inhibition.isEmpty) return avoided;
    const inhibited = workers.filter(({ id }) => this.#inhibition.has(id)).map(({ id }) => id);
    return new Set([...inhibited, ...(avoided ?? [])]);
  }

  #reserve<Worker extends RoutableWorker>(
    decision: Decision,
    request: RouteRequest,
    asked: SchedulingRequest,
    pool: LivePool,
  ): Reservation<Worker> {
    // The scheduler chooses only among the workers that were last told for the pool.
    const worker = pool.byId.get(decision.workerId) as Worker;
    const sessionId = request.routing.session_id;
    if (sessionId !== undefined) pool.affinity?.began(sessionId, decision);
    const headers = this.#options.peers?.booked(pool.pool, decision, asked);
    return new KvReservation(worker, headers, { pool, decision, sessionId }, this.#heard);
  }

  /** Sees to it that the queue is looked at when time alone can open it. */
  #arm(pool: LivePool): void {
    if (pool.scheduler.pendingRequests === 0) return;
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

/** What was booked. */
interface Booked {
  readonly pool: LivePool;
  readonly decision: Decision;
  readonly sessionId: string | undefined;
}

/** Told after the scheduler was: load has changed, the queue may open at another time. */
interface ReservationEvents {
  progressed(booked: Booked): void;
  ended(booked: Booked): void;
}

class KvReservation<Worker extends RoutableWorker> implements Reservation<Worker> {
  readonly worker: Worker;
  readonly headers: Reservation['headers'];
  readonly #booked: Booked;
  readonly #events: ReservationEvents;
  #isPrefilled = false;
  #isReleased = false; // a later request may carry the same id

  constructor(worker: Worker, headers: Reservation['headers'], booked: Booked, events: ReservationEvents) {
    this.worker = worker;
    this.headers = headers;
    this.#booked = booked;
    this.#events = events;
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
  }

  produced(outputTokens: number): void {
    const { pool, decision } = this.#booked;
    if (!this.#isReleased) pool.scheduler.produced(decision.requestId, outputTokens);
  }

  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    const { pool, decision } = this.#booked;
    pool.scheduler.free(decision.requestId);
    this.#events.ended(this.#booked);
  }
}

function toSchedulable(worker: RoutableWorker): SchedulableWorker {
  const { id, dataParallelStartRank, dataParallelSize, taints, totalKvBlocks, maxNumBatchedTokens } = worker;
  return { id, dataParallelStartRank, dataParallelSize, taints, totalKvBlocks, maxNumBatchedTokens };
}

/** Prefill pools keep no blocks; decode pools have no prompts to prefill, which the model `stator` goes by. */
function poolConfig(role: PoolRole, config: KvRouterConfig): KvRouterConfig {
  if (role === 'prefill') return prefillPoolConfig(config);
  return role === 'decode' ? { ...config, costModel: 'dynamo' } : config;
}

// every request asks, of few pools

/** One name for each pool: a key may have a pool in several roles. */
export function poolName(pool: Pick<WorkerPool, 'role' | 'key'>): string {
  const known = names.get(pool);
  if (known !== undefined) return known;
  const name = `${pool.role} ${pool.key}`;
  names.set(pool, name);
  return name;
}
