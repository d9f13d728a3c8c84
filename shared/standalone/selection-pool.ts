import { BlockIndex, type IndexMemory, Overlaps, RankTable } from '../block-index/index.ts';
import type { Clock, Random } from '../clock/index.ts';
import { u64OfHex } from '../records/index.ts';
import type { RankId } from '../router/index.ts';
import type { ActiveSequenceEvent } from '../router-state/index.ts';
import {
  type Decision,
  type KvRouterConfig,
  type PolicyProfile,
  type PrefillDurationModel,
  Scheduler,
  type SchedulingRequest,
  SessionAffinity,
  type SessionAffinityOptions,
} from '../scheduler/index.ts';
import type { Logger } from '../telemetry/index.ts';
import type { BlockHashes } from '../tokens/index.ts';
import { indexSink } from '../worker-events/index.ts';
import { type BodyFields, DEFAULT_GROUP, ServiceError } from './body-fields.ts';
import { dumpEvents } from './indexer.ts';
import { overlapScores, overlapsByWorker, type ScoredRank, type WorkerOverlap } from './pools.ts';
import { isConnectable, type OpenListener, RankListeners } from './rank-listeners.ts';
import type { ReplicaPool } from './replicas.ts';

interface SelectionPoolOptions {
  readonly model: string;
  readonly group: string;
  readonly blockSizeTokens: number;
  readonly config: KvRouterConfig;
  /** Shared with the other pools. */
  readonly memory: IndexMemory;
  readonly policies?: PolicyProfile | undefined;
  readonly prefillDuration?: PrefillDurationModel | undefined;
  /** @default off */
  readonly sessionAffinity?: SessionAffinityOptions | undefined;
  readonly openListener: OpenListener;
  readonly openReplica?: ((apply: (event: ActiveSequenceEvent) => void) => ReplicaPool) | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

const NOTHING: WorkerOverlap = { longest_matched: 0, gpu: 0, dp: {}, cpu: 0, disk: 0 };

/** The workers of one model and routing group in the selection service: their caches, their loads and the scheduler. */
export class SelectionPool {
  readonly model: string;
  readonly group: string;
  readonly blockSizeTokens: number;
  readonly scheduler: Scheduler;
  readonly workers = new Map<string, SelectionWorker>();
  /** Which worker each session is bound to; undefined if sessions are not bound. */
  readonly affinity: SessionAffinity | undefined;
  readonly #ranks = new RankTable();
  readonly index: BlockIndex;
  readonly #listeners: RankListeners;
  readonly #overlaps = new Overlaps(0);
  readonly #replica: ReplicaPool | undefined;

  constructor(options: SelectionPoolOptions) {
    const { model, group, blockSizeTokens, config, policies, prefillDuration, clock, random } = options;
    const { openListener, logger, openReplica, memory } = options;
    this.model = model;
    this.group = group;
    this.blockSizeTokens = blockSizeTokens;
    this.affinity = options.sessionAffinity && new SessionAffinity(options.sessionAffinity, clock);
    const ranks = this.#ranks;
    this.index = memory.bound((bytesMax) => new BlockIndex({ ranks, bytesMax }));
    this.#listeners = new RankListeners(
      openListener,
      indexSink(this.index, ranks, () => {}),
      logger,
    );
    const index = this.index;
    const choosing = { config, blockSizeTokens, ranks, index, clock, random, policies, prefillDuration };
    this.scheduler = new Scheduler(choosing);
    this.#replica = openReplica?.((event) => this.#applyPeer(event));
  }

  /**
   * Adds the worker or replaces its record. Ranks whose events now come from another endpoint start again with no
   * blocks.
   */
  put(worker: SelectionWorker): void {
    const before = this.workers.get(worker.id);
    this.workers.set(worker.id, worker);
    if (before !== undefined) this.#stopListening(before, (rank) => !isSameSource(before, worker, rank));
    this.#schedule();
    for (const [rank, endpoint] of sourcesOf(worker)) {
      if (this.#listeners.has(worker.id, rank)) continue;
      const replayEndpoint = worker.replayEndpoints.get(rank);
      const { blockSizeTokens } = this;
      this.#listeners.add(worker.id, rank, { endpoint, replayEndpoint, blockSizeTokens, cacheSalt: undefined });
    }
  }

  remove(workerId: string): void {
    const worker = this.workers.get(workerId);
    if (worker === undefined) return;
    this.workers.delete(workerId);
    this.#stopListening(worker, () => true);
    this.#schedule();
  }

  /**
   * Waits for a worker in the scheduler's queue and books it. @throws RoutingError; the signal's reason when it aborts
   */
  choose(request: SchedulingRequest, signal: AbortSignal): Promise<Decision> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const leave = (): void => {
        ticket.cancel();
        reject(signal.reason);
      };
      const settle = (): void => signal.removeEventListener('abort', leave);
      signal.addEventListener('abort', leave, { once: true });
      const ticket = this.scheduler.submit(request, {
        decided: (decision) => {
          settle();
          resolve(decision);
        },
        rejected: (error) => {
          settle();
          reject(error);
        },
      });
    });
  }

  /** Workers that get no new requests. */
  get draining(): ReadonlySet<string> {
    return new Set([...this.workers.values()].filter(({ isDraining }) => isDraining).map(({ id }) => id));
  }

  /** Returns the rank of the session if it can be used; otherwise removes the binding. */
  sessionTarget(sessionId: string | undefined): RankId | undefined {
    const target = sessionId === undefined ? undefined : this.affinity?.find(sessionId);
    if (sessionId === undefined || target === undefined) return undefined;
    const worker = this.workers.get(target.workerId);
    if (worker?.isDraining === false && this.hasRank(target.workerId, target.dpRank)) return target;
    this.affinity?.unbind(sessionId);
    return undefined;
  }

  overlapOf(workerId: string, hashes: BlockHashes): WorkerOverlap {
    this.index.match(hashes, this.#overlaps);
    const found = overlapsByWorker(this.#overlaps, this.#ranks, this.blockSizeTokens);
    return found[u64OfHex(workerId).toString()] ?? NOTHING;
  }

  /** Returns how much of a prompt every rank has. */
  overlapScores(hashes: BlockHashes): unknown {
    this.index.match(hashes, this.#overlaps);
    const ranks: ScoredRank[] = this.scheduler.loads().map(({ workerId, dpRank }) => {
      return { rank: this.#ranks.find(workerId, dpRank) ?? -1, workerId, dpRank };
    });
    const { blockSizeTokens } = this;
    const blocks = hashes.local.length >> 1;
    return overlapScores(this.#overlaps, ranks, { blockSizeTokens, blocks, showId: u64OfHex });
  }

  /** Returns the prompt tokens that the rank would have to compute. */
  uncachedTokens(workerId: string, dpRank: number, hashes: BlockHashes, promptTokens: number): number {
    this.index.match(hashes, this.#overlaps);
    const blocks = this.#overlaps.device[this.#ranks.find(workerId, dpRank) ?? -1] ?? 0;
    return Math.max(0, promptTokens - blocks * this.blockSizeTokens);
  }

  hasRank(workerId: string, dpRank: number): boolean {
    return this.#ranks.find(workerId, dpRank) !== undefined;
  }

  tell(event: Parameters<ReplicaPool['tell']>[0]): void {
    this.#replica?.tell(event);
  }

  dump(): Generator<string, void, void> {
    return dumpEvents(this.index, this.#ranks);
  }

  housekeep(): void {
    this.index.housekeep();
    if (this.scheduler.pendingRequests > 0) this.scheduler.tick();
  }

  async close(): Promise<void> {
    this.scheduler.close();
    this.#replica?.close();
    await this.#listeners.close();
  }

  #schedule(): void {
    this.scheduler.setWorkers(
      [...this.workers.values()].map(({ id, dpStart, dpSize, taints, totalKvBlocks, maxNumBatchedTokens }) => ({
        id,
        dataParallelStartRank: dpStart,
        dataParallelSize: dpSize,
        taints,
        totalKvBlocks,
        maxNumBatchedTokens,
      })),
    );
  }

  #stopListening(worker: SelectionWorker, isStopped: (rank: number) => boolean): void {
    for (const [dpRank] of sourcesOf(worker)) {
      if (!isStopped(dpRank)) continue;
      this.#listeners.remove(worker.id, dpRank);
      const rank = this.#ranks.find(worker.id, dpRank);
      if (rank !== undefined) this.index.cleared(rank);
    }
  }

  /** Ignores workers that are not registered here. */
  #applyPeer({ requestId, workerId, dpRank, change }: ActiveSequenceEvent): void {
    if (change.kind === 'freed') this.scheduler.free(requestId);
    else if (change.kind === 'prefill_done') this.scheduler.prefillDone(requestId);
    else if (change.kind === 'added') {
      const { sequenceHashes: sequence, prefillTokens = 0, expectedOutputTokens } = change;
      this.scheduler.book({
        requestId,
        workerId,
        dpRank,
        promptTokens: Math.max(prefillTokens, ((sequence?.length ?? 0) >> 1) * this.blockSizeTokens),
        hashes: sequence && { local: new Uint32Array(0), sequence },
        uncachedTokens: prefillTokens,
        expectedOutputTokens,
      });
    }
  }
}

/** Returns the endpoints of the worker's own ranks. */
function sourcesOf({ kvEndpoints, dpStart, dpSize }: SelectionWorker): readonly (readonly [number, string])[] {
  return [...kvEndpoints].filter(([rank]) => rank >= dpStart && rank < dpStart + dpSize);
}

function isSameSource(before: SelectionWorker, after: SelectionWorker, rank: number): boolean {
  const isKept = rank >= after.dpStart && rank < after.dpStart + after.dpSize;
  return (
    isKept &&
    before.kvEndpoints.get(rank) === after.kvEndpoints.get(rank) &&
    before.replayEndpoints.get(rank) === after.replayEndpoints.get(rank)
  );
}

/** Model of requests that name none. */
export const DEFAULT_MODEL = 'default';

/** The record of a worker in the selection service; its fields may arrive one after another. */
export interface SelectionWorker {
  /** In hex. */
  readonly id: string;
  readonly model: string;
  readonly group: string;
  readonly endpoint: string | undefined;
  readonly blockSizeTokens: number | undefined;
  readonly dpStart: number;
  readonly dpSize: number;
  /** By rank. */
  readonly kvEndpoints: ReadonlyMap<number, string>;
  readonly replayEndpoints: ReadonlyMap<number, string>;
  readonly maxNumBatchedTokens: number | undefined;
  readonly totalKvBlocks: number | undefined;
  readonly taints: readonly string[];
  readonly isDraining: boolean;
}

export type Lifecycle = 'incomplete' | 'schedulable' | 'draining' | 'unschedulable';

const RANKS_MAX = 1024;

/**
 * Returns the record of a body, merged with `before` if given: fields that the body does not name keep their values.
 * @throws ServiceError 400, 422
 */
export function readWorker(body: BodyFields, id: string, before?: SelectionWorker): SelectionWorker {
  const dpStart = body.optionalU32('dp_start') ?? body.optionalU32('data_parallel_start_rank') ?? before?.dpStart ?? 0;
  const dpSize = body.optionalU32('dp_size') ?? body.optionalU32('data_parallel_size') ?? before?.dpSize ?? 1;
  if (dpSize < 1 || dpSize > RANKS_MAX) throw new ServiceError(400, `dp_size must be from 1 to ${RANKS_MAX}`);
  return {
    id,
    model: body.optionalText('model_name') ?? before?.model ?? DEFAULT_MODEL,
    group: body.optionalText('routing_group') ?? before?.group ?? DEFAULT_GROUP,
    endpoint: body.optionalText('endpoint') ?? before?.endpoint,
    blockSizeTokens: body.optionalU32('block_size') ?? before?.blockSizeTokens,
    dpStart,
    dpSize,
    kvEndpoints: endpoints(body, 'kv_events_endpoint', dpStart) ?? before?.kvEndpoints ?? new Map(),
    replayEndpoints: endpoints(body, 'replay_endpoint', dpStart) ?? before?.replayEndpoints ?? new Map(),
    maxNumBatchedTokens: body.optionalCount('max_num_batched_tokens') ?? before?.maxNumBatchedTokens,
    totalKvBlocks: body.optionalCount('total_kv_blocks') ?? before?.totalKvBlocks,
    taints: body.optionalTexts('taints') ?? before?.taints ?? [],
    isDraining: body.boolean('draining') ?? before?.isDraining ?? false,
  };
}

/** Reads `name` for the first rank, or `name` with an s for each rank: `{"0": "tcp://..."}`. */
function endpoints(body: BodyFields, name: string, dpStart: number): ReadonlyMap<number, string> | undefined {
  const single = body.optionalText(name);
  const named = body.optionalTextMap(`${name}s`);
  if (single === undefined && named === undefined) return undefined;
  const byRank = new Map<number, string>(single === undefined ? [] : [[dpStart, single]]);
  for (const [rank, endpoint] of Object.entries(named ?? {})) {
    if (!/^\d{1,10}$/.test(rank)) throw new ServiceError(400, `${name}s: ${rank} is not a rank`);
    byRank.set(Number(rank), endpoint);
  }
  for (const endpoint of byRank.values()) {
    if (!isConnectable(endpoint))
      throw new ServiceError(400, `${name} ${endpoint} is not tcp://host:port or ipc://path`);
  }
  return byRank;
}

/** Returns the fields that the worker still lacks before it can be chosen. */
export function missingOf(worker: SelectionWorker, hasQueue: boolean): readonly string[] {
  const missing: string[] = [];
  if (worker.endpoint === undefined) missing.push('endpoint is missing');
  if (worker.blockSizeTokens === undefined || worker.blockSizeTokens < 1) missing.push('block_size is missing or 0');
  for (let rank = worker.dpStart; rank < worker.dpStart + worker.dpSize; rank++) {
    if (!worker.kvEndpoints.has(rank)) missing.push(`kv_events_endpoint of rank ${rank} is missing`);
  }
  if (hasQueue && worker.maxNumBatchedTokens === undefined) missing.push('max_num_batched_tokens is missing');
  return missing;
}

/** Returns the record as the service shows it. */
export function workerJson(worker: SelectionWorker, lifecycle: Lifecycle, reasons: readonly string[]): unknown {
  return {
    worker_id: u64OfHex(worker.id),
    model_name: worker.model,
    routing_group: worker.group,
    endpoint: worker.endpoint ?? null,
    block_size: worker.blockSizeTokens ?? null,
    dp_start: worker.dpStart,
    dp_size: worker.dpSize,
    kv_events_endpoints: Object.fromEntries(worker.kvEndpoints),
    replay_endpoints: Object.fromEntries(worker.replayEndpoints),
    max_num_batched_tokens: worker.maxNumBatchedTokens ?? null,
    total_kv_blocks: worker.totalKvBlocks ?? null,
    taints: worker.taints,
    lifecycle,
    not_schedulable_reasons: reasons,
  };
}
