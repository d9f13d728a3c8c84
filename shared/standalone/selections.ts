import { IndexMemory } from '../block-index/index.ts';
import type { Clock, Random } from '../clock/index.ts';
import { u64OfHex } from '../records/index.ts';
import type { ActiveSequenceChange, ActiveSequenceEvent } from '../router-state/index.ts';
import {
  type Decision,
  type KvRouterConfig,
  type PolicyConfig,
  type PrefillDurationModel,
  profileFor,
  type SessionAffinityOptions,
} from '../scheduler/index.ts';
import type { Logger } from '../telemetry/index.ts';
import { type Prompt, ServiceError } from './body-fields.ts';
import { Pools } from './pools.ts';
import type { OpenListener } from './rank-listeners.ts';
import type { ReplicaPools } from './replicas.ts';
import { type Lifecycle, missingOf, SelectionPool, type SelectionWorker, workerJson } from './selection-pool.ts';

export interface SelectionServiceOptions {
  readonly config: KvRouterConfig;
  /** Memory limit of all indexes together. @default unbounded */
  readonly indexBytesMax?: number | undefined;
  readonly policies?: PolicyConfig | undefined;
  /** @default no prefill duration is predicted */
  readonly prefillDuration?: PrefillDurationModel | undefined;
  readonly openListener: OpenListener;
  /** @default off */
  readonly sessionAffinity?: SessionAffinityOptions | undefined;
  readonly replicas?: ReplicaPools | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

const WORKERS_MAX = 20_000;
const RESERVATIONS_MAX = 1_000_000;

interface Reservation {
  readonly sessionId: string | undefined;
  readonly pool: SelectionPool;
  readonly workerId: string;
  readonly dpRank: number;
}

/** The state of the selection service: the workers with their caches and loads, and the reservations. */
export class SelectionService {
  readonly selections: SelectionsCache;
  readonly #options: SelectionServiceOptions;
  readonly #workers = new Map<string, SelectionWorker>();
  readonly #pools = new Pools<SelectionPool>();
  readonly #memory: IndexMemory;
  readonly #reservations = new Map<string, Reservation>();

  constructor(options: SelectionServiceOptions) {
    this.#options = options;
    const indexes = () => [...this.#pools].map(({ index }) => index);
    this.#memory = new IndexMemory(options.indexBytesMax ?? Number.POSITIVE_INFINITY, indexes);
    this.selections = new SelectionsCache(options.clock);
  }

  workerOf(id: string): SelectionWorker | undefined {
    return this.#workers.get(id);
  }

  /** Returns the record as it is shown. */
  show(worker: SelectionWorker): unknown {
    const reasons = this.#reasons(worker);
    return workerJson(worker, lifecycleOf(worker, reasons, this.#lacks(worker)), reasons);
  }

  get workers(): Iterable<SelectionWorker> {
    return this.#workers.values();
  }

  /** Adds a worker or replaces it. @throws ServiceError 503 at a bound */
  put(worker: SelectionWorker): void {
    const before = this.#workers.get(worker.id);
    if (before === undefined && this.#workers.size >= WORKERS_MAX) {
      throw new ServiceError(503, `more than ${WORKERS_MAX} workers`);
    }
    const isMoved = before !== undefined && (before.model !== worker.model || before.group !== worker.group);
    if (isMoved) this.#leavePool(before);
    this.#workers.set(worker.id, worker);
    if (this.#lacks(worker).length > 0) {
      this.#leavePool(worker);
      return;
    }
    const pool = this.#poolFor(worker);
    if (pool.blockSizeTokens === worker.blockSizeTokens) pool.put(worker);
    else pool.remove(worker.id);
  }

  /** Returns the removed worker, if there was one. */
  remove(id: string): SelectionWorker | undefined {
    const worker = this.#workers.get(id);
    if (worker === undefined) return undefined;
    this.#workers.delete(id);
    this.#leavePool(worker);
    return worker;
  }

  /** @throws ServiceError 503 while no worker of the model and group is schedulable */
  poolOf(model: string, group: string): SelectionPool {
    const pool = this.#pools.find(model, group);
    if (pool === undefined) throw new ServiceError(503, `no schedulable worker of model ${model} in group ${group}`);
    return pool;
  }

  get pools(): Iterable<SelectionPool> {
    return this.#pools;
  }

  get isReady(): boolean {
    for (const worker of this.#workers.values()) if (this.#reasons(worker).length === 0) return true;
    return false;
  }

  /** Records what the scheduler has booked under that id, and publishes it to the replicas. */
  booked(
    id: string,
    { model, group, workerId, dpRank, prompt, uncachedTokens, expectedOutputTokens, sessionId }: Selection,
  ): void {
    const pool = this.poolOf(model, group);
    this.#reservations.set(id, { pool, workerId, dpRank, sessionId });
    if (sessionId !== undefined) pool.affinity?.began(sessionId, { workerId, dpRank });
    this.#tell(id, {
      kind: 'added',
      sequenceHashes: prompt.hashes.sequence,
      tracksPrefillTokens: true,
      expectedOutputTokens,
      prefillTokens: uncachedTokens,
      expectedPrefillMs: undefined,
    });
  }

  /** Books a choice that was made earlier or elsewhere. @throws ServiceError 404 for the worker, 409 for the id */
  reserve(id: string, selection: Selection): void {
    const { model, group, workerId, dpRank, prompt, uncachedTokens, expectedOutputTokens } = selection;
    this.checkRoom(id);
    const pool = this.#pools.find(model, group);
    if (pool === undefined || !pool.hasRank(workerId, dpRank)) {
      throw new ServiceError(404, `worker ${u64OfHex(workerId)} rank ${dpRank} is not schedulable`);
    }
    const { hashes, tokens: promptTokens } = prompt;
    const booking = { requestId: id, workerId, dpRank, promptTokens, hashes, uncachedTokens, expectedOutputTokens };
    if (!pool.scheduler.book(booking)) throw new ServiceError(409, `reservation ${id} exists already`);
    this.booked(id, selection);
  }

  /** @throws ServiceError 409 if the id is booked, 503 at the bound */
  checkRoom(id: string): void {
    if (this.#find(id) !== undefined) throw new ServiceError(409, `reservation ${id} exists already`);
    if (this.#reservations.size >= RESERVATIONS_MAX) {
      throw new ServiceError(503, `more than ${RESERVATIONS_MAX} reservations`);
    }
  }

  /** @throws ServiceError 404 */
  prefillComplete(id: string): void {
    this.#reservation(id).pool.scheduler.prefillDone(id);
    this.#tell(id, { kind: 'prefill_done' });
  }

  /** @throws ServiceError 404 */
  addOutputBlock(id: string, decayFraction: number | undefined): void {
    this.#reservation(id).pool.scheduler.addOutputBlock(id, decayFraction);
  }

  /** @throws ServiceError 404, also for the second call */
  free(id: string): void {
    const { pool } = this.#reservation(id);
    this.#tell(id, { kind: 'freed' });
    this.#forget(id);
    pool.scheduler.free(id);
  }

  /** Runs one slice of housekeeping and checks the queues; call it often. */
  housekeep(): void {
    for (const pool of this.#pools) pool.housekeep();
  }

  /** Frees reservations that were never freed; call it every minute. */
  expire(): void {
    for (const { scheduler } of this.#pools) scheduler.tick();
    for (const id of this.#reservations.keys()) this.#find(id);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools].map((pool) => pool.close()));
  }

  #reservation(id: string): Reservation {
    const reservation = this.#find(id);
    if (reservation === undefined) throw new ServiceError(404, `reservation ${id} does not exist`);
    return reservation;
  }

  /** Returns the reservation, unless it has expired or its worker has left. */
  #find(id: string): Reservation | undefined {
    const reservation = this.#reservations.get(id);
    if (reservation === undefined || reservation.pool.scheduler.isActive(id)) return reservation;
    this.#forget(id);
    return undefined;
  }

  /** Removes the reservation; its session is idle from now on, in whatever way it ended. */
  #forget(id: string): void {
    const { sessionId, pool } = this.#reservations.get(id) ?? {};
    this.#reservations.delete(id);
    if (sessionId !== undefined) pool?.affinity?.ended(sessionId);
  }

  #tell(requestId: string, change: ActiveSequenceChange): void {
    const reservation = this.#reservations.get(requestId);
    if (reservation === undefined) return;
    const { pool, workerId, dpRank } = reservation;
    pool.tell({ requestId, workerId, dpRank, loraName: undefined, change });
  }

  #lacks(worker: SelectionWorker): readonly string[] {
    return missingOf(worker, this.#options.config.queueThreshold !== undefined);
  }

  #reasons(worker: SelectionWorker): readonly string[] {
    const reasons = [...this.#lacks(worker)];
    if (worker.isDraining) reasons.push('draining');
    const pool = this.#pools.find(worker.model, worker.group);
    if (reasons.length === 0 && pool?.workers.has(worker.id) !== true) {
      reasons.push(
        pool === undefined ? 'removed' : `block_size is not ${pool.blockSizeTokens}, that of the other workers`,
      );
    }
    return reasons;
  }

  #poolFor({ model, group, blockSizeTokens = 0 }: SelectionWorker): SelectionPool {
    const known = this.#pools.find(model, group);
    if (known !== undefined) return known;
    this.#pools.requireRoom();
    const { replicas, policies, ...given } = this.#options;
    const shared = { ...given, memory: this.#memory };
    const profile = profileFor(policies, model, this.#options.config);
    const openReplica =
      replicas && ((apply: (event: ActiveSequenceEvent) => void) => replicas.open(model, group, apply));
    return this.#pools.add(
      new SelectionPool({ ...shared, model, group, blockSizeTokens, policies: profile, openReplica }),
    );
  }

  /**
   * Removes the worker from its pool. A pool is closed with its last worker: its requests have no worker to wait for.
   */
  #leavePool({ id, model, group }: SelectionWorker): void {
    const pool = this.#pools.find(model, group);
    pool?.remove(id);
    if (pool === undefined || pool.workers.size > 0) return;
    this.#pools.delete(pool);
    pool.close().catch((error: unknown) => this.#options.logger.warn('pool did not close', { error }));
  }
}

function lifecycleOf(worker: SelectionWorker, reasons: readonly string[], lacks: readonly string[]): Lifecycle {
  if (lacks.length > 0) return 'incomplete';
  if (worker.isDraining) return 'draining';
  return reasons.length === 0 ? 'schedulable' : 'unschedulable';
}

/** A choice that may be booked later. */
export interface Selection {
  readonly model: string;
  readonly group: string;
  readonly workerId: string;
  readonly dpRank: number;
  readonly uncachedTokens: Decision['uncachedTokens'];
  readonly prompt: Prompt;
  readonly expectedOutputTokens: number | undefined;
  /** Session that is bound to the worker once the choice is booked. */
  readonly sessionId: string | undefined;
}

const LIFE_MS = 120_000;
const ENTRIES_MAX = 4096;
const BYTES_MAX = 256 * 1024 * 1024;
/** Size of an entry without its hashes. */
const ENTRY_BYTES = 512;

/** Keeps choices by their ids for a while; drops the oldest first. */
export class SelectionsCache {
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #kept = new Map<
    string,
    { readonly selection: Selection; readonly untilMs: number; readonly bytes: number }
  >();
  #bytes = 0;

  constructor(clock: Pick<Clock, 'nowMs'>) {
    this.#clock = clock;
  }

  /** Replaces an earlier choice with that id. */
  put(id: string, selection: Selection): void {
    this.take(id);
    const { local, sequence } = selection.prompt.hashes;
    const bytes = ENTRY_BYTES + local.byteLength + sequence.byteLength;
    this.#kept.set(id, { selection, bytes, untilMs: this.#clock.nowMs() + LIFE_MS });
    this.#bytes += bytes;
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= ENTRIES_MAX && this.#bytes <= BYTES_MAX) break;
      this.take(oldest);
    }
  }

  /** Removes and returns a choice. Undefined if it has expired or is unknown. */
  take(id: string): Selection | undefined {
    const kept = this.#kept.get(id);
    if (kept === undefined) return undefined;
    this.#kept.delete(id);
    this.#bytes -= kept.bytes;
    return kept.untilMs > this.#clock.nowMs() ? kept.selection : undefined;
  }
}
