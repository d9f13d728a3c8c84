import {
  AGGREGATED_RANKS_MAX,
  type AggregatedPool,
  NO_TRAFFIC,
  PASS_SAMPLES_MAX,
  type PassRow,
  PLANNER_EVENT_VERSION,
  type PlannerEventOf,
  type PoolName,
  type TrafficTotals,
} from '../../protocol/index.ts';
import { addTraffic, trafficSince } from './traffic.ts';
import { kvUseOf, loadOfWorker, SILENT_S, sumLoads } from './worker-load.ts';

type WorkerRollup = PlannerEventOf<'worker.rollup'>;

const SILENT_MS = SILENT_S * 1000;
/** Workers of one model that one process aggregates; it counts further ones and leaves them out. */
const WORKERS_MAX = 20_000;

export interface RollupAggregatorOptions {
  readonly namespace: string;
  readonly model: string;
  /** Source of the aggregated messages: this process. */
  readonly source: string;
  readonly epoch: string;
}

interface HeardWorker {
  readonly rollup: WorkerRollup;
  readonly heardAtMs: number;
}

interface PoolSamples {
  rows: PassRow[];
  /** Samples so far, of which `rows` are an even draw. */
  seen: number;
}

/**
 * Aggregates the roll-ups of the workers of a model into one message. Its counts are sums since it began: all traffic
 * of a worker that begins, and the later traffic of a worker that it meets later. Times are those of the caller's
 * clock.
 */
export class RollupAggregator {
  readonly #options: RollupAggregatorOptions;
  #epoch: string;
  readonly #workers = new Map<string, HeardWorker>();
  readonly #totals = new Map<PoolName, TrafficTotals>();
  readonly #samples = new Map<PoolName, PoolSamples>();
  #sequence = 0;
  #hasNews = false;
  readonly #leftOut = new Set<string>();

  constructor(options: RollupAggregatorOptions) {
    this.#options = options;
    this.#epoch = options.epoch;
  }

  /** Number of known workers. */
  get size(): number {
    return this.#workers.size;
  }

  /** Returns the last roll-up of a worker; undefined for an unknown worker. */
  latestOf(workerId: string): WorkerRollup | undefined {
    return this.#workers.get(workerId)?.rollup;
  }

  /** Counts from zero under another epoch. Known workers count with their traffic from now on. */
  beginAnew(epoch: string): void {
    this.#epoch = epoch;
    this.#sequence = 0;
    for (const name of this.#totals.keys()) this.#totals.set(name, NO_TRAFFIC);
    this.#samples.clear();
    this.#hasNews = this.#workers.size > 0;
  }

  /** Workers that reported since the last message and had no room, up to the bound of this count. */
  get leftOut(): number {
    return this.#leftOut.size;
  }

  /** Takes a roll-up. @returns false for one that was seen before, or is older than the last one of its worker */
  add(rollup: WorkerRollup, nowMs: number): boolean {
    const { worker_id: id, component, epoch, seq, totals } = rollup;
    const known = this.#workers.get(id)?.rollup;
    const isSame = known?.epoch === epoch;
    if (isSame && seq <= known.seq) return false;
    if (known === undefined && this.#workers.size >= WORKERS_MAX) {
      if (this.#leftOut.size < WORKERS_MAX) this.#leftOut.add(id);
      return false;
    }
    this.#hasNews = true;
    this.#workers.set(id, { rollup, heardAtMs: nowMs });
    const grown = trafficSince(isSame ? known.totals : undefined, totals, seq === 0);
    this.#totals.set(component, addTraffic(this.#totals.get(component) ?? NO_TRAFFIC, grown));
    for (const { samples = [] } of rollup.ranks) for (const row of samples) this.#sample(component, row);
    return true;
  }

  /** Forgets a worker that has left, and returns its last roll-up. */
  remove(workerId: string): WorkerRollup | undefined {
    const known = this.#workers.get(workerId);
    if (this.#workers.delete(workerId)) this.#hasNews = true;
    return known?.rollup;
  }

  /** Returns the aggregate of all workers; undefined if none has reported since the last one. */
  aggregate(nowMs: number, wallMs: number): PlannerEventOf<'model.rollup'> | undefined {
    this.#dropSilent(nowMs);
    this.#leftOut.clear();
    if (!this.#hasNews) return undefined;
    this.#hasNews = false;
    const { namespace, model, source } = this.#options;
    const epoch = this.#epoch;
    const names = new Set([...this.#totals.keys()]);
    const pools = Object.fromEntries([...names].map((name) => [name, this.#pool(name)]));
    this.#samples.clear();
    const seq = this.#sequence++;
    return { type: 'model.rollup', v: PLANNER_EVENT_VERSION, namespace, model, source, epoch, seq, at: wallMs, pools };
  }

  #pool(name: PoolName): AggregatedPool {
    const workers = [...this.#workers.values()]
      .map(({ rollup }) => rollup)
      .filter(({ component, draining }) => component === name && draining !== true);
    const ranks = workers.flatMap(({ ranks: of, worker_id: id }) => of.map((rank) => ({ id, rank })));
    const rows = ranks.flatMap(({ id, rank: { dp_rank, last } }) =>
      last === undefined ? [] : [[id, dp_rank, ...last] as [string, number, ...number[]]],
    );
    const loads = workers.map(({ ranks: of }) => loadOfWorker(of));
    const { running, waiting, behind, kvUse } = sumLoads(
      loads,
      ranks.map(({ rank }) => kvUseOf([rank])),
    );
    const engine = workers.at(-1)?.engine;
    const samples = this.#samples.get(name)?.rows ?? [];
    const instances = workers.map(({ host }) => host?.instance_id ?? null);
    return {
      workers: workers.map(({ worker_id: id }) => id),
      ...(instances.some((instance) => instance !== null) ? { instances } : {}),
      running,
      waiting,
      ...(behind > 0 ? { behind } : {}),
      ...(kvUse === undefined ? {} : { kv_use: kvUse }),
      totals: this.#totals.get(name) ?? NO_TRAFFIC,
      ...(engine === undefined ? {} : { engine }),
      has_passes: workers.length > 0 && workers.every(({ has_passes: has }) => has),
      engines: rows.slice(0, AGGREGATED_RANKS_MAX),
      ...(rows.length > AGGREGATED_RANKS_MAX ? { engines_left_out: rows.length - AGGREGATED_RANKS_MAX } : {}),
      ...(samples.length > 0 ? { samples } : {}),
    };
  }

  /**
   * Keeps an even draw over workers and time. If there is no room, a hash of a later sample's number decides whether it
   * replaces an earlier one.
   */
  #sample(name: PoolName, row: PassRow): void {
    const kept = this.#samples.get(name) ?? { rows: [], seen: 0 };
    this.#samples.set(name, kept);
    const at = kept.seen++;
    if (kept.rows.length < PASS_SAMPLES_MAX) kept.rows.push(row);
    else if (Math.floor((((at * 0x9e37_79b1) >>> 0) / 2 ** 32) * kept.seen) < PASS_SAMPLES_MAX)
      kept.rows[at % PASS_SAMPLES_MAX] = row;
  }

  #dropSilent(nowMs: number): void {
    const latestMs = Math.max(...[...this.#workers.values()].map(({ heardAtMs }) => heardAtMs));
    if (nowMs - latestMs > SILENT_MS) return; // no worker is heard: the present ones cannot be known
    for (const [id, { heardAtMs }] of this.#workers) if (nowMs - heardAtMs > SILENT_MS) this.remove(id);
  }
}
