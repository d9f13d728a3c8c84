import type { Clock } from '../clock/index.ts';
import { asRecord, asWholeNumber } from '../records/index.ts';
import type { RankId, RoutableWorker } from '../router/index.ts';
import { hasRank } from '../router/index.ts';
import type { FollowedWorker } from './kv-event-feed.ts';
import { workerIdOf } from './kv-events.ts';

/** Load that a worker reports for one of its ranks. Undefined = unknown. */
export interface LoadReport extends RankId {
  readonly usedKvBlocks: number | undefined;
  readonly activePrefillTokens: number | undefined;
  readonly activeDecodeBlocks: number | undefined;
  /** Id of the last KV event that the rank published. */
  readonly lastEventId: number | undefined;
  /**
   * Ids of requests with a reservation that have arrived at the worker since its last report, and of those that have
   * left.
   */
  readonly arrivedRequests: readonly string[];
  readonly leftRequests: readonly string[];
}

/** Decodes the report in a message of `kv_metrics`; undefined if it is not a report. */
export function decodeLoadReport(payload: unknown): LoadReport | undefined {
  const fields = asRecord(payload);
  if (fields === undefined) return undefined;
  const workerId = workerIdOf(fields.worker_id);
  const dpRank = asWholeNumber(fields.dp_rank ?? 0);
  if (workerId === undefined || dpRank === undefined) return undefined;
  return {
    workerId,
    dpRank,
    usedKvBlocks: asWholeNumber(fields.kv_used_blocks),
    activePrefillTokens: asWholeNumber(fields.active_prefill_tokens),
    activeDecodeBlocks: asWholeNumber(fields.active_decode_blocks),
    lastEventId: asWholeNumber(fields.last_event_id),
    arrivedRequests: texts(fields.arrived_requests),
    leftRequests: texts(fields.left_requests),
  };
}

/**
 * Whether a report on a worker of Dynamo comes from a router of Dynamo, which publishes on the same topic. It has only
 * the requests of that router, which the messages between routers also tell, and nothing ends it when the router is
 * gone.
 */
export function isOfRouter({ usedKvBlocks, activePrefillTokens }: LoadReport): boolean {
  return usedKvBlocks === undefined && activePrefillTokens !== undefined; // its workers know no prefill tokens
}

const NO_TEXTS: readonly string[] = [];

function texts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : NO_TEXTS;
}

interface ExpectedWorker {
  readonly dataParallelStartRank: number;
  readonly dataParallelSize: number;
  readonly reports: Map<number, LoadReport>;
}

/** Last report of each rank of the followed workers. */
export class WorkerLoads {
  readonly #workers = new Map<string, ExpectedWorker>();

  /** Keeps the report, without its requests, if its rank is expected. */
  set(report: LoadReport): void {
    const { workerId, dpRank } = report;
    const worker = this.#workers.get(workerId);
    if (worker === undefined) return;
    if (!hasRank(worker, dpRank)) return;
    worker.reports.set(dpRank, { ...report, arrivedRequests: NO_TEXTS, leftRequests: NO_TEXTS });
  }

  of(workerId: string, dpRank: number): LoadReport | undefined {
    return this.#workers.get(workerId)?.reports.get(dpRank);
  }

  /** Keeps the reports of the worker's ranks from now on. Idempotent. */
  expect({ id, dataParallelStartRank, dataParallelSize }: Omit<FollowedWorker, 'hasLocalIndexer'>): void {
    const reports = this.#workers.get(id)?.reports ?? new Map<number, LoadReport>();
    this.#workers.set(id, { dataParallelStartRank, dataParallelSize, reports });
    for (const dpRank of reports.keys()) {
      if (!hasRank({ dataParallelStartRank, dataParallelSize }, dpRank)) reports.delete(dpRank);
    }
  }

  forget(workerId: string): void {
    this.#workers.delete(workerId);
  }
}

/** Loads above which a rank is busy; undefined = no limit. */
export interface BusyLimits {
  /** Share of the KV blocks in use, 0 to 1. */
  readonly decodeBlocksShare?: number | undefined;
  readonly prefillTokens?: number | undefined;
  /** Multiple of the worker's `max_num_batched_tokens`. */
  readonly prefillTokensFraction?: number | undefined;
}

/**
 * Time for which a check of a fleet's loads stays valid. Workers report every second, and at once on a large change.
 */
const LOOK_MS = 50;

interface Look {
  readonly atMs: number;
  readonly limits: BusyLimits;
  readonly busy: ReadonlySet<string>;
}

/** Finds the workers above the busy limits of their model. */
export class BusyWorkers {
  readonly #loads: WorkerLoads;
  readonly #clock: Clock;
  /** Last checks by worker list: a changed fleet is another list. */
  readonly #looks = new WeakMap<readonly RoutableWorker[], Look>();

  constructor(loads: WorkerLoads, clock: Clock) {
    this.#loads = loads;
    this.#clock = clock;
  }

  /** Returns the ids of the busy workers, at most 50 ms old; undefined if no limit is set. */
  of(workers: readonly RoutableWorker[], limits: BusyLimits): ReadonlySet<string> | undefined {
    if (!isSet(limits)) return undefined;
    const known = this.#looks.get(workers);
    const nowMs = this.#clock.nowMs();
    if (known !== undefined && known.limits === limits && nowMs - known.atMs < LOOK_MS) return known.busy;
    const busy = new Set<string>();
    for (const worker of workers) if (this.#isBusy(worker, limits)) busy.add(worker.id);
    this.#looks.set(workers, { atMs: nowMs, limits, busy });
    return busy;
  }

  /** Whether a worker is busy: all its ranks must be. A rank without a report is not busy. */
  #isBusy(worker: RoutableWorker, limits: BusyLimits): boolean {
    const { dataParallelStartRank: start, dataParallelSize: size } = worker;
    for (let rank = start; rank < start + size; rank++) if (!this.#isRankBusy(worker, rank, limits)) return false;
    return size > 0;
  }

  #isRankBusy(worker: RoutableWorker, dpRank: number, limits: BusyLimits): boolean {
    const load = this.#loads.of(worker.id, dpRank);
    if (load === undefined) return false;
    const { totalKvBlocks, maxNumBatchedTokens } = worker;
    const used = load.usedKvBlocks ?? load.activeDecodeBlocks;
    return (
      exceeds(ratio(used, totalKvBlocks), limits.decodeBlocksShare) ||
      exceeds(load.activePrefillTokens, limits.prefillTokens) ||
      exceeds(ratio(load.activePrefillTokens, maxNumBatchedTokens), limits.prefillTokensFraction)
    );
  }
}

function isSet({ decodeBlocksShare, prefillTokens, prefillTokensFraction }: BusyLimits): boolean {
  return decodeBlocksShare !== undefined || prefillTokens !== undefined || prefillTokensFraction !== undefined;
}

function ratio(part: number | undefined, whole: number | undefined): number | undefined {
  return part === undefined || whole === undefined || whole === 0 ? undefined : part / whole;
}

function exceeds(value: number | undefined, limit: number | undefined): boolean {
  return value !== undefined && limit !== undefined && value > limit;
}
