import { RankTable } from '../block-index/index.ts';
import type { Clock, TimeAndChance } from '../clock/index.ts';
import { u64OfHex } from '../records/index.ts';
import type { ActiveSequenceEvent } from '../router-state/index.ts';
import { ActiveLoad, type PotentialLoad, type RankLoad } from '../scheduler/index.ts';
import type { Logger } from '../telemetry/index.ts';
import { type BodyFields, DEFAULT_GROUP, ServiceError } from './body-fields.ts';
import { type Pool, Pools, potentialLoadJson } from './pools.ts';
import { openReplicas, Peers, peerRoutes, type ReplicaPool, type ReplicaPools } from './replicas.ts';
import { createServiceApp, OK, type Route, type RunningService, route, type ServiceSettings } from './service.ts';

/** A worker of one model and group, as it registers. */
interface SlotWorker {
  /** In hex. */
  readonly id: string;
  readonly dpStart: number;
  readonly dpSize: number;
}

/** A request that a router has sent to a worker. */
interface SlotRequest {
  readonly requestId: string;
  readonly workerId: string;
  readonly dpRank: number;
  /** Pairs of sequence hashes of the prompt's complete blocks. */
  readonly sequence: Uint32Array;
  /** Prompt tokens that the worker has to compute. */
  readonly newTokens: number;
}

/** Maximum number of ranks of one pool. */
const RANKS_MAX = 100_000;
/** Maximum number of requests of one pool. */
const REQUESTS_MAX = 1_000_000;
/** Interval of the check for lost requests while others arrive. */
const EXPIRY_CHECK_MS = 30_000;

interface SlotPoolOptions extends Pool {
  readonly expiryMs: number;
  readonly clock: Pick<Clock, 'nowMs'>;
  /** Connects the pool to other replicas; undefined if there are none. */
  readonly openReplica?: ((apply: (event: ActiveSequenceEvent) => void) => ReplicaPool) | undefined;
}

/** The requests in progress on the workers of one model and routing group. */
class SlotPool implements Pool {
  readonly model: string;
  readonly group: string;
  readonly blockSizeTokens: number;
  readonly workers = new Map<string, SlotWorker>();
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #ranks = new RankTable();
  readonly #load: ActiveLoad;
  readonly #replica: ReplicaPool | undefined;
  #checkedExpiryMs: number;

  constructor({ model, group, blockSizeTokens, expiryMs, clock, openReplica }: SlotPoolOptions) {
    this.model = model;
    this.group = group;
    this.blockSizeTokens = blockSizeTokens;
    this.#clock = clock;
    this.#checkedExpiryMs = clock.nowMs();
    this.#load = new ActiveLoad(0, { blockSizeTokens, expiryMs });
    this.#replica = openReplica?.((event) => this.#applyPeer(event));
  }

  /** @throws ServiceError 409 for a known worker, 503 at the bound */
  register(worker: SlotWorker): void {
    const { id, dpStart, dpSize } = worker;
    if (this.workers.has(id)) throw new ServiceError(409, `worker ${u64OfHex(id)} is already registered`);
    if (this.#ranks.capacity + dpSize > RANKS_MAX) throw new ServiceError(503, `more than ${RANKS_MAX} ranks`);
    this.workers.set(id, worker);
    for (let rank = dpStart; rank < dpStart + dpSize; rank++) this.#ranks.intern(id, rank);
    this.#load.reserve(this.#ranks.capacity);
  }

  /** Frees its requests. Returns false for an unknown worker. */
  unregister(id: string): boolean {
    if (!this.workers.delete(id)) return false;
    for (const rank of this.#ranks.ranksOf(id)) {
      this.#load.freeRank(rank, this.#clock.nowMs());
      this.#ranks.drop(rank);
      this.#ranks.recycle(rank);
    }
    return true;
  }

  /** @throws ServiceError 404 for an unknown worker or rank, 409 for a request that is in progress */
  add(request: SlotRequest): void {
    const { requestId, workerId, dpRank, sequence, newTokens } = request;
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#checkedExpiryMs >= EXPIRY_CHECK_MS) this.expire();
    const rank = this.#ranks.find(workerId, dpRank);
    if (rank === undefined) {
      throw new ServiceError(404, `worker ${u64OfHex(workerId)} rank ${dpRank} is not registered`);
    }
    if (this.#load.size >= REQUESTS_MAX) throw new ServiceError(503, `more than ${REQUESTS_MAX} requests`);
    if (!this.#book(requestId, rank, sequence, newTokens)) {
      throw new ServiceError(409, `request ${requestId} is already in progress`);
    }
    this.#tell(requestId, rank, {
      kind: 'added',
      sequenceHashes: sequence,
      tracksPrefillTokens: true,
      expectedOutputTokens: undefined,
      prefillTokens: newTokens,
      expectedPrefillMs: undefined,
    });
  }

  /** Idempotent. @throws ServiceError 404 for an unknown request */
  prefillComplete(requestId: string): void {
    const rank = this.#load.rankOf(requestId);
    if (rank === undefined) throw new ServiceError(404, `request ${requestId} is not in progress`);
    this.#load.prefillDone(requestId, this.#clock.nowMs());
    this.#tell(requestId, rank, { kind: 'prefill_done' });
  }

  /** Idempotent. */
  free(requestId: string): void {
    const rank = this.#load.rankOf(requestId);
    if (rank === undefined) return;
    this.#load.free(requestId, this.#clock.nowMs());
    this.#tell(requestId, rank, { kind: 'freed' });
  }

  /** Frees requests that were never freed; call it from a timer. */
  expire(): void {
    this.#checkedExpiryMs = this.#clock.nowMs();
    this.#load.expire(this.#checkedExpiryMs);
  }

  /** Returns a row for each rank, in the order of registration. */
  loads(): readonly RankLoad[] {
    const nowMs = this.#clock.nowMs();
    return this.#knownRanks().map((rank) => ({
      workerId: this.#ranks.workerIdOf(rank)!, // `#knownRanks` returns only ranks that have a worker
      dpRank: this.#ranks.dpRankOf(rank),
      activePrefillTokens: this.#load.prefillTokensAt(rank, nowMs),
      activeDecodeBlocks: this.#load.activeBlocks[rank]!,
      activeRequests: this.#load.requests[rank]!,
    }));
  }

  /** Returns what each rank's load would be with the request on it. */
  potentialLoads(sequence: Uint32Array, newTokens: number): readonly PotentialLoad[] {
    this.#load.uses.matchDepths(sequence);
    const { depths } = this.#load.uses;
    const ranks = this.#knownRanks();
    return this.loads().map(({ workerId, dpRank, activePrefillTokens, activeDecodeBlocks, activeRequests }, at) => ({
      workerId,
      dpRank,
      potentialPrefillTokens: activePrefillTokens + newTokens,
      potentialDecodeBlocks: activeDecodeBlocks + (sequence.length >> 1) - depths[ranks[at]!]!,
      activeRequests,
    }));
  }

  close(): void {
    this.#replica?.close();
  }

  #knownRanks(): readonly number[] {
    const known: number[] = [];
    for (const id of this.workers.keys()) known.push(...this.#ranks.ranksOf(id));
    return known;
  }

  #book(id: string, rank: number, hashes: Uint32Array, prefillTokens: number): boolean {
    const promptTokens = (hashes.length >> 1) * this.blockSizeTokens;
    return this.#load.add({ id, rank, promptTokens, hashes, isReusing: true, prefillTokens }, this.#clock.nowMs());
  }

  #tell(requestId: string, rank: number, change: ActiveSequenceEvent['change']): void {
    const [workerId = '', dpRank] = [this.#ranks.workerIdOf(rank), this.#ranks.dpRankOf(rank)];
    this.#replica?.tell({ requestId, workerId, dpRank, loraName: undefined, change });
  }

  /** Ignores workers that are not registered here. */
  #applyPeer({ requestId, workerId, dpRank, change }: ActiveSequenceEvent): void {
    const rank = this.#ranks.find(workerId, dpRank);
    if (change.kind === 'freed') this.#load.free(requestId, this.#clock.nowMs());
    else if (change.kind === 'prefill_done') this.#load.prefillDone(requestId, this.#clock.nowMs());
    else if (change.kind === 'added' && rank !== undefined && this.#load.size < REQUESTS_MAX) {
      this.#book(requestId, rank, change.sequenceHashes ?? new Uint32Array(0), change.prefillTokens ?? 0);
    }
  }
}

interface SlotTrackerOptions {
  readonly clock: Pick<Clock, 'nowMs'>;
  /** Age at which a request that was never freed is freed. @default 300_000 */
  readonly expiryMs?: number;
  /** @default there are no other replicas */
  readonly replicas?: ReplicaPools | undefined;
}

/** The state of the slot tracker: the load of every worker, without any cache. */
export class SlotTracker {
  readonly #options: SlotTrackerOptions;
  readonly #pools = new Pools<SlotPool>();

  constructor(options: SlotTrackerOptions) {
    this.#options = options;
  }

  /** @throws ServiceError 400 for sizes of 0, 409 for a known worker or another block size */
  register(model: string, group: string, blockSizeTokens: number, worker: SlotWorker): void {
    if (blockSizeTokens < 1) throw new ServiceError(400, 'block_size must be at least 1');
    if (worker.dpSize < 1) throw new ServiceError(400, 'dp_size must be at least 1');
    if (worker.dpStart + worker.dpSize > 2 ** 32) throw new ServiceError(400, 'dp_start + dp_size is above 2^32');
    const known = this.#pools.findWith(model, group, blockSizeTokens);
    if (known === undefined) this.#pools.requireRoom();
    (known ?? this.#createPool(model, group, blockSizeTokens)).register(worker);
  }

  /** Removes a worker, and its pool with the last one. @throws ServiceError 404 */
  unregister(model: string, group: string, workerId: string): void {
    const pool = this.poolOf(model, group);
    if (!pool.unregister(workerId)) throw new ServiceError(404, `worker ${u64OfHex(workerId)} is not registered`);
    if (pool.workers.size > 0) return;
    pool.close();
    this.#pools.delete(pool);
  }

  /** @throws ServiceError 404 if no worker is registered */
  poolOf(model: string, group: string): SlotPool {
    const known = this.#pools.find(model, group);
    if (known === undefined) throw new ServiceError(404, `no worker of model ${model} in routing group ${group}`);
    return known;
  }

  get pools(): Iterable<SlotPool> {
    return this.#pools;
  }

  expire(): void {
    for (const pool of this.#pools) pool.expire();
  }

  close(): void {
    for (const pool of this.#pools) pool.close();
  }

  #createPool(model: string, group: string, blockSizeTokens: number): SlotPool {
    const { clock, expiryMs = 300_000, replicas } = this.#options;
    const openReplica =
      replicas && ((apply: (event: ActiveSequenceEvent) => void) => replicas.open(model, group, apply));
    return this.#pools.add(new SlotPool({ model, group, blockSizeTokens, expiryMs, clock, openReplica }));
  }
}

/** Interval of the check for requests that were never freed. */
const EXPIRY_TIMER_MS = 60_000;

/** Starts the slot tracker. */
export async function startSlotTracker(
  settings: ServiceSettings,
  { clock }: TimeAndChance,
  logger: Logger,
): Promise<RunningService> {
  const replicas = await openReplicas(settings, clock, logger);
  const tracker = new SlotTracker({
    clock,
    expiryMs: settings.routerActiveRequestExpirySecs * 1000,
    replicas: replicas.pools,
  });
  const expiry = clock.every(EXPIRY_TIMER_MS, () => tracker.expire());
  const peers = new Peers(settings.servicePeers, replicas.pools.peerObserver);
  return {
    app: createServiceApp({ routes: slotRoutes(tracker, peers), errorForm: 'json', clock, logger }),
    port: 8091,
    close: async () => {
      expiry.cancel();
      tracker.close();
      await replicas.close();
    },
  };
}

/** Returns the HTTP routes of the slot tracker. */
export function slotRoutes(tracker: SlotTracker, peers: Peers): Route[] {
  const post = (path: string, status: number, apply: (body: BodyFields) => unknown): Route =>
    route('POST', path, async (call) => ({ status, json: apply(await call.body()) ?? OK }));
  const get = (path: string, read: () => unknown): Route => route('GET', path, () => ({ status: 200, json: read() }));
  return [
    post('/register', 201, (body) => register(tracker, body)),
    post('/unregister', 200, (body) => tracker.unregister(...placeOf(body), body.id('worker_id'))),
    post('/add', 201, (body) => add(tracker, body)),
    post('/prefill_complete', 200, (body) => {
      const requestId = body.text('request_id');
      tracker.poolOf(...placeOf(body)).prefillComplete(requestId);
    }),
    post('/free', 200, (body) => {
      const requestId = body.text('request_id');
      tracker.poolOf(...placeOf(body)).free(requestId);
    }),
    post('/potential_loads', 200, (body) => potentialLoads(tracker, body)),
    get('/loads', () => loads(tracker)),
    get('/workers', () => workers(tracker)),
    get('/health', () => OK),
    ...peerRoutes('/replica_sync', peers),
  ];
}

function placeOf(body: BodyFields): [model: string, group: string] {
  return [body.text('model_name'), body.optionalText('routing_group') ?? DEFAULT_GROUP];
}

function register(tracker: SlotTracker, body: BodyFields): void {
  tracker.register(...placeOf(body), body.u32('block_size'), {
    id: body.id('worker_id'),
    dpStart: body.optionalU32('dp_start') ?? 0,
    dpSize: body.optionalU32('dp_size') ?? 1,
  });
}

function add(tracker: SlotTracker, body: BodyFields): void {
  const request = {
    requestId: body.text('request_id'),
    workerId: body.id('worker_id'),
    dpRank: body.optionalU32('dp_rank') ?? 0,
    sequence: body.hashes('sequence_hashes'),
    newTokens: body.optionalCount('new_isl_tokens') ?? 0,
  };
  tracker.poolOf(...placeOf(body)).add(request);
}

function potentialLoads(tracker: SlotTracker, body: BodyFields): readonly unknown[] {
  const [sequence, newTokens] = [body.hashes('sequence_hashes'), body.optionalCount('new_isl_tokens') ?? 0];
  return tracker
    .poolOf(...placeOf(body))
    .potentialLoads(sequence, newTokens)
    .map(potentialLoadJson);
}

function loads(tracker: SlotTracker): readonly unknown[] {
  return everyPool(tracker, (names, pool) =>
    pool.loads().map((row) => ({
      ...names,
      worker_id: u64OfHex(row.workerId),
      dp_rank: row.dpRank,
      active_prefill_tokens: row.activePrefillTokens,
      active_decode_blocks: row.activeDecodeBlocks,
    })),
  );
}

function workers(tracker: SlotTracker): readonly unknown[] {
  return everyPool(tracker, (names, pool) =>
    [...pool.workers.values()].map(({ id, dpStart, dpSize }) => ({
      worker_id: u64OfHex(id),
      ...names,
      block_size: pool.blockSizeTokens,
      dp_start: dpStart,
      dp_size: dpSize,
    })),
  );
}

function everyPool(
  { pools }: SlotTracker,
  rowsOf: (names: { readonly model_name: string; readonly routing_group: string }, pool: SlotPool) => unknown[],
): readonly unknown[] {
  return [...pools].flatMap((pool) => rowsOf({ model_name: pool.model, routing_group: pool.group }, pool));
}
