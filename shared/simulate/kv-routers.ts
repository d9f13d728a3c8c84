import assert from 'node:assert';
import { ApproximateIndex, BlockIndex, type PrefixIndex, predictingIndex, RankTable } from '../block-index/index.ts';
import type { KvEvent } from '../engines/index.ts';
import type { RouterConfigOverride } from '../protocol/index.ts';
import {
  type Decision,
  decodeOverride,
  prefillPoolConfig,
  RendezvousShare,
  Scheduler,
  type SchedulingOutcome,
} from '../scheduler/index.ts';
import { routerRandom } from './indexless-routers.ts';
import type { PoolView, RoutedPool, RouterBench } from './routers.ts';
import type { SimulatedRequest } from './simulated-rank.ts';

/**
 * Routers of mode `kv`: the product's own scheduler and block index. All follow one log of KV events with the same lag,
 * so they share one index. Each has its own load, queue, chance and predictions. It learns of the others' requests
 * after a delay, or never.
 */
export class KvRouters implements RouterBench {
  readonly count: number;
  readonly wantsKvEvents: boolean;
  readonly wantsGrowth: boolean;
  readonly #pool: PoolView;
  readonly #override: RouterConfigOverride | undefined;
  readonly #replicaSyncDelayMs: number | undefined;
  readonly #index: BlockIndex | undefined;
  readonly #schedulers: readonly Scheduler[];
  readonly #ranks: RankTable;
  readonly #options: RoutedPool;
  /** Rank of each request that its router has decided for now. */
  readonly #provisionalRank = new Map<string, number>();
  /** Time of each router's next tick; infinity = none. */
  readonly #tickMs: Float64Array;

  constructor(pool: PoolView, { kv: config, ...given }: RoutedPool) {
    const { role } = given;
    const kv = role === 'prefill' ? prefillPoolConfig(config) : config;
    const options = { ...given, kv };
    this.count = options.routers;
    this.wantsKvEvents = role !== 'decode' && kv.useKvEvents && kv.overlapScoreCredit > 0;
    this.wantsGrowth = kv.trackOutputBlocks;
    this.#pool = pool;
    this.#override = role === 'decode' ? decodeOverride(undefined, false) : undefined;
    this.#replicaSyncDelayMs = options.replicaSyncDelayMs;
    this.#tickMs = new Float64Array(this.count).fill(Number.POSITIVE_INFINITY);
    const ranks = numberRanks(options);
    this.#ranks = ranks;
    this.#options = options;
    const { indexBytesMax = Number.POSITIVE_INFINITY } = options;
    this.#index = this.wantsKvEvents ? new BlockIndex({ ranks, bytesMax: () => indexBytesMax }) : undefined;
    this.#schedulers = Array.from({ length: this.count }, (_, router) => this.#createScheduler(router, options, ranks));
    this.setWorkers(Array.from({ length: options.workers }, (_, worker) => worker));
  }

  setWorkers(numbers: readonly number[]): void {
    const { dataParallelSize, engine } = this.#options;
    const workers = numbers.map((number) => ({
      id: workerId(number),
      dataParallelStartRank: 0,
      dataParallelSize,
      taints: [],
      totalKvBlocks: engine.numGpuBlocks,
      maxNumBatchedTokens: engine.maxNumBatchedTokens,
      maxNumSeqs: engine.maxNumSeqs,
    }));
    // Those that leave go everywhere before their ranks' numbers are given to others.
    const staying = workers.filter(({ id }) => this.#ranks.find(id, 0) !== undefined);
    for (const scheduler of this.#schedulers) scheduler.setWorkers(staying);
    for (const scheduler of this.#schedulers) scheduler.setWorkers(workers);
  }

  get pending(): number {
    return this.#schedulers.reduce((total, { pendingRequests }) => total + pendingRequests, 0);
  }

  submit(request: SimulatedRequest): void {
    const { id, router } = request;
    const { index, promptLength } = request;
    this.#schedulers[router]!.submit(
      {
        id,
        promptTokens: promptLength,
        hashes: request.names.prompt,
        override: this.#override,
        ...this.#pool.hintsOf(index),
      },
      {
        ...this.#provisional(request),
        decided: (decision) => this.#decided(request, decision),
        rejected: () => this.#pool.refuse(request),
      },
    );
    this.#armTick(router);
  }

  firstToken({ id, router }: SimulatedRequest): void {
    this.#tell(router, (scheduler) => scheduler.prefillDone(id));
  }

  grown({ id, router, generated }: SimulatedRequest): void {
    this.#schedulers[router]!.produced(id, generated); // never sent to other replicas
  }

  finished({ id, router, generated }: SimulatedRequest): void {
    this.#tell(router, (scheduler, isOwn) => scheduler.free(id, isOwn ? generated : undefined));
  }

  kvEvents(inPool: number, events: readonly KvEvent[]): void {
    const index = this.#index;
    const { dataParallelSize } = this.#options;
    const rank = this.#ranks.find(workerId(Math.floor(inPool / dataParallelSize)), inPool % dataParallelSize);
    if (index === undefined || rank === undefined) return; // of a worker that has left
    for (const event of events) {
      if (event.kind === 'stored') {
        index.stored(rank, 'device', event.parentHash, event.blockHashes, event.tokensHashes);
      } else if (event.kind === 'removed') index.removed(rank, 'device', event.blockHashes);
      else index.cleared(rank);
    }
  }

  #createScheduler(router: number, options: RoutedPool, ranks: RankTable): Scheduler {
    const { engine, kv, seed } = options;
    const scheduler = new Scheduler({
      config: kv,
      ranks,
      index: this.#indexOfRouter(),
      isDecodePool: options.role === 'decode',
      blockSizeTokens: engine.blockSizeTokens,
      policies: options.policies,
      prefillDuration: options.prefillDuration,
      explainedMax: 0,
      share: this.#shareOf(router, ranks),
      peerLagMs: () => this.#replicaSyncDelayMs,
      clock: { nowMs: () => this.#pool.nowMs },
      random: routerRandom(seed, router),
    });
    return scheduler;
  }

  /** Routers that hear of each other prefer a share of the ranks each. */
  #shareOf(router: number, ranks: RankTable): RendezvousShare | undefined {
    if (this.#replicaSyncDelayMs === undefined) return undefined;
    const share = new RendezvousShare(ranks, routerName(router));
    share.setOthers(Array.from({ length: this.count }, (_, other) => routerName(other)));
    return share;
  }

  /** Returns one router's knowledge of caches: the events of all workers, its own decisions, or both. */
  #indexOfRouter(): PrefixIndex | undefined {
    const { useKvEvents, overlapScoreCredit, approximateCachePolicy: policy, ttlMs, predictedTtlMs } = this.#options.kv;
    if (this.#options.role === 'decode' || overlapScoreCredit === 0) return undefined;
    const shared = { ranks: this.#ranks, clock: { nowMs: () => this.#pool.nowMs } };
    if (!useKvEvents) return new ApproximateIndex({ ...shared, policy, ttlMs, ...this.#bytesMax() });
    if (this.#index === undefined || predictedTtlMs === undefined) return this.#index;
    const predictions = new ApproximateIndex({ ...shared, policy: 'ttl', ttlMs: predictedTtlMs, ...this.#bytesMax() });
    return predictingIndex(this.#index, predictions);
  }

  #bytesMax(): { readonly bytesMax?: () => number } {
    const { indexBytesMax } = this.#options;
    return indexBytesMax === undefined ? {} : { bytesMax: () => indexBytesMax };
  }

  #decided(request: SimulatedRequest, decision: Decision): void {
    const { workerId, dpRank } = decision;
    this.#pool.dispatch(request, Number.parseInt(workerId, 16) * this.#options.dataParallelSize + dpRank);
    if (this.#provisionalRank.get(request.id) !== decision.rank) this.#tellBooked(request, decision, undefined);
    this.#provisionalRank.delete(request.id);
  }

  /** Tells the other routers about waiting requests, and about decisions that the router will make again. */
  #provisional(request: SimulatedRequest): Pick<SchedulingOutcome, 'booked' | 'waits' | 'withdrawn'> {
    if (this.count === 1 || this.#replicaSyncDelayMs === undefined) return {};
    const { id, router, names, promptLength: promptTokens } = request;
    return {
      waits: (place) => {
        const { sequence: sequenceHashes } = names.prompt;
        const facts = { id, promptTokens, sequenceHashes, ...this.#pool.hintsOf(request.index) };
        this.#tellOthers(router, (scheduler) => scheduler.heardWaiting({ ...place, ...facts }));
      },
      booked: (decision) => {
        this.#provisionalRank.set(id, decision.rank);
        this.#tellBooked(request, decision, id);
        this.#armTick(router);
      },
      withdrawn: () => {
        this.#provisionalRank.delete(id);
        this.#tellOthers(router, (scheduler) => scheduler.free(id));
      },
    };
  }

  #tellBooked(request: SimulatedRequest, decision: Decision, provisionalId: string | undefined): void {
    if (this.count === 1 || this.#replicaSyncDelayMs === undefined) return;
    const { workerId, dpRank, uncachedTokens, prefillMs } = decision;
    const { id, promptLength, router } = request;
    const booking = {
      requestId: id,
      provisionalId,
      workerId,
      dpRank,
      promptTokens: promptLength,
      hashes: request.names.prompt,
      uncachedTokens,
      prefillMs,
    };
    this.#pool.after(this.#replicaSyncDelayMs, () => {
      this.#schedulers.forEach((scheduler, other) => {
        if (other === router) return;
        scheduler.book(booking);
        this.#armTick(other);
      });
    });
  }

  /** Tells the request's own router at once and the others after the delay. */
  #tell(router: number, act: (scheduler: Scheduler, isOwn: boolean) => void): void {
    act(this.#schedulers[router]!, true);
    this.#armTick(router);
    this.#tellOthers(router, (scheduler) => act(scheduler, false));
  }

  #tellOthers(router: number, act: (scheduler: Scheduler) => void): void {
    if (this.count === 1 || this.#replicaSyncDelayMs === undefined) return;
    this.#pool.after(this.#replicaSyncDelayMs, () => {
      this.#schedulers.forEach((scheduler, other) => {
        if (other === router) return;
        act(scheduler);
        this.#armTick(other);
      });
    });
  }

  /** Ticks a router with waiting requests when the passing of time may open its queue. */
  #armTick(router: number): void {
    const scheduler = this.#schedulers[router]!;
    if (scheduler.pendingRequests === 0 && scheduler.nextTickMs === undefined) return;
    const { nowMs } = this.#pool;
    const dueMs = Math.min(scheduler.nextTickMs ?? Number.POSITIVE_INFINITY, nowMs + scheduler.recheckMs);
    if (dueMs >= this.#tickMs[router]!) return;
    this.#tickMs[router] = dueMs;
    this.#pool.after(Math.max(0, dueMs - nowMs), () => {
      if (this.#tickMs[router] !== dueMs) return; // an earlier one took its place
      this.#tickMs[router] = Number.POSITIVE_INFINITY;
      scheduler.tick();
      this.#armTick(router);
    });
  }
}

function routerName(router: number): string {
  return `router-${router}`;
}

function workerId(worker: number): string {
  return worker.toString(16);
}

/** Numbers the ranks as the fleet does. */
function numberRanks({ workers, dataParallelSize }: RoutedPool): RankTable {
  const ranks = new RankTable();
  for (let worker = 0; worker < workers; worker++) {
    for (let dpRank = 0; dpRank < dataParallelSize; dpRank++) {
      const rank = ranks.intern(workerId(worker), dpRank);
      assert(rank === worker * dataParallelSize + dpRank, 'a new table numbers ranks in order');
    }
  }
  return ranks;
}
