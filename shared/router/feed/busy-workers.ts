import type { Clock } from '../../clock/index.ts';
import type { RoutableWorker } from '../types.ts';
import type { WorkerLoads } from './worker-loads.ts';

/** Loads above which a rank is busy; undefined = that load does not matter. */
export interface BusyLimits {
  /** Share of the KV blocks, 0 to 1. */
  readonly decodeBlocksShare?: number | undefined;
  readonly prefillTokens?: number | undefined;
  /** Multiple of the worker's `max_num_batched_tokens`. */
  readonly prefillTokensFraction?: number | undefined;
}

/** How long one look at a fleet's loads is used; workers report every second, and at once on a large change. */
const LOOK_MS = 50;

interface Look {
  readonly atMs: number;
  readonly limits: BusyLimits;
  readonly busy: ReadonlySet<string>;
}

/** Which workers are above the busy limits of their model. */
export class BusyWorkers {
  readonly #loads: WorkerLoads;
  readonly #clock: Clock;
  /** By worker list: a changed fleet is another list. */
  readonly #looks = new WeakMap<readonly RoutableWorker[], Look>();

  constructor(loads: WorkerLoads, clock: Clock) {
    this.#loads = loads;
    this.#clock = clock;
  }

  /** Undefined where no limit is set. Ids of the busy workers, at most 50 ms old. */
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

  /** A worker is busy when all its ranks are; a rank without a report is not. */
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
