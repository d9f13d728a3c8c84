import {
  type EngineFacts,
  fromPassRow,
  type InterruptionKind,
  NO_TRAFFIC,
  type PoolName,
  packSortedKeys,
  type StartPhase,
  type TrafficTotals,
  unpackSortedKeys,
  unpackWorkerKeys,
  workerKey,
} from '../../protocol/index.ts';
import { type PlannerState, startPlanner } from '../planner.ts';
import type { FleetEvent, FleetSample, StartSample } from '../record/fleet-sample.ts';
import { TRAFFIC_KEYS } from '../signals/traffic.ts';
import type { EngineCapabilities, PerPool, Pool } from '../types.ts';

/** Most workers that report to a planner by themselves; a larger fleet needs a process that aggregates them. */
export const DIRECT_WORKERS_MAX = 200;
/**
 * Longest state in bytes of JSON: two fifths of an item of DynamoDB. A pool of 20,000 workers takes two thirds of it.
 */
export const STATE_BYTES_MAX = 160 * 1024;

/** Last report of a worker that no other process aggregates. */
export interface DirectWorker {
  readonly pool: Pool;
  /** Instance on which it runs, if that is known. */
  readonly instance?: string | undefined;
  readonly heardAtS: number;
  /** The worker was heard before, so that its traffic since then is known. */
  readonly isCounted: boolean;
  readonly running: number;
  readonly waiting: number;
  /** Share of its KV cache in use, from 0 to 1. */
  readonly kvUse: number | undefined;
  readonly hasPasses: boolean;
  /** The last pass of each rank, as `[rank, ...pass]`. */
  readonly passes: readonly (readonly number[])[];
}

/** Last report of the process that aggregates a pool. */
export interface AggregatedWorkers {
  readonly heardAtS: number;
  readonly source: string;
  /** Keys of the workers, see `workerKey`: the ids themselves would be four times as long. */
  readonly keys: readonly number[];
  readonly running: number;
  readonly waiting: number;
  /** Workers at which more requests wait than run. */
  readonly behind?: number | undefined;
  readonly kvUse: number | undefined;
  readonly hasPasses: boolean;
}

/** Coming or going that one worker reported. */
export interface WorkerChange {
  readonly pool: Pool;
  readonly instance?: string | undefined;
  readonly isUp: boolean;
  readonly atS: number;
}

/** An instance that ends, or may end. Times are seconds of the queue's clock. */
export interface Interruption {
  readonly pool: Pool;
  readonly kind: InterruptionKind;
  readonly atS: number;
  /** Time at which the instance ends, if it is known. */
  readonly deadlineAtS?: number | undefined;
  /** Most workers that were seen on it since. */
  readonly workers: number;
  /** Time from which no worker of it was seen any more. */
  readonly emptyAtS?: number | undefined;
}

/** Numbers of one source's events, so that none counts twice. Forgotten ten minutes after its last event. */
export interface KnownSource {
  readonly epoch: string;
  readonly seq: number;
  readonly heardAtS: number;
  /** Totals of its last message, by pool. */
  totals: Partial<Record<PoolName, TrafficTotals>>;
}

/** Circumstances of the latest tick that no signal tells, so that the law can be asked again. */
export interface AskedWith {
  /** Keys of the configuration that differ from their defaults, as its file names them. */
  readonly config: Readonly<Record<string, unknown>>;
  /** Engines as the planner's process knows them. @default as the workers say */
  readonly engines?: PerPool<EngineCapabilities>;
  /** Workers as the environment counted them. @default as they were heard */
  readonly counted?: PerPool<{ readonly ready: number; readonly starting: number; readonly failing?: number }>;
  /** Seconds that a start takes, as the environment measured. */
  readonly startSeconds?: number;
  /** The last pass of each rank of an aggregated pool, as `[worker, rank, ...pass]`, if the law reads them and few. */
  readonly passes?: PerPool<readonly (readonly [worker: string, rank: number, ...row: number[]])[]>;
}

/**
 * Memory of a planner about a model between two batches of events, as plain values. Times are seconds of the queue's
 * clock; the clocks of senders and planners count nowhere.
 */
export interface ModelState {
  readonly v: 1;
  planner: PlannerState;
  /** Time of the latest event. */
  nowS: number;
  /** Time of the latest tick of the law. */
  tickAtS: number;
  /** Something has come since that must not wait: a tick is due with the next later signal. */
  isUrgent: boolean;
  /** Number of the last decision; -1 before the first. */
  decisionId: number;
  /** Time of the last decision. Absent in older states. */
  decidedAtS?: number;
  /** Last decided targets. */
  targets: PerPool<number>;
  sources: Record<string, KnownSource>;
  direct: Record<string, DirectWorker>;
  folded: PerPool<AggregatedWorkers>;
  engines: PerPool<EngineFacts>;
  /** Comings and goings that single workers reported, until the next roll-up of their pool shows them. */
  changes: Record<string, WorkerChange>;
  /** Interrupted instances by id. Absent in older states. */
  interruptions?: Record<string, Interruption>;
  held: Record<string, { readonly count: number; readonly atS: number }>;
  /** Times of decided starts that have not come yet, the oldest first. */
  starting: Partial<Record<Pool, number[]>>;
  /**
   * Pools that have come to their targets: time since when more workers exist again, and whether that was corrected.
   * Absent in older states.
   */
  above?: PerPool<{ readonly sinceS?: number; readonly isCorrected: boolean }>;
  /** Part of the decided targets that stands for workers that leave. Absent in older states. */
  replaced?: PerPool<number>;
  /** Sample since the last stored tick: see `noteSample`. Absent in older states. */
  recorded?: {
    readonly sample?: FleetSample;
    /** Events since the last tick, and how many have no room there. */
    readonly open?: readonly FleetEvent[];
    readonly leftOut?: number;
    /** Starts that ended since the last tick. */
    readonly starts?: StartSample | undefined;
    /** Times of the last failed launches, by option and by their words: none is recorded twice. */
    readonly failedAtMs?: Readonly<Record<string, number>> | undefined;
  };
  /**
   * Starts of machines by instance: phase, and time since when. Present from the first report of a machine on. Absent
   * in older states.
   */
  hosts?: Readonly<Record<string, readonly [phase: StartPhase, sinceS: number]>>;
  /** Reason and time of the last stored tick. Absent in older states. */
  told?: { readonly reason: string; readonly atS: number };
  /** Circumstances of the latest tick. Absent in older states. */
  asked?: AskedWith;
  /** Reason of the latest tick, and the numbers behind it, for people. Absent in older states. */
  latest?: { readonly reason: string; readonly figures: Readonly<Record<string, number | string>> };
  /** Workers at the last count, by pool. */
  ready: PerPool<number>;
  /** Seconds from a decision to a worker that serves, for the last twenty starts. */
  startTimes: number[];
  heardAtS: number;
  /** Requests that began since the last tick. */
  startedSinceTick: number;
  /** Traffic since the last tick, and since the last tick of the throughput loop. */
  sinceTick: TrafficTotals;
  traffic: { fromS: number; totals: TrafficTotals };
}

export function startModel(nowS: number): ModelState {
  return {
    v: 1,
    planner: startPlanner(nowS),
    nowS,
    tickAtS: nowS,
    isUrgent: false,
    decisionId: -1,
    targets: {},
    sources: {},
    direct: {},
    folded: {},
    engines: {},
    changes: {},
    held: {},
    starting: {},
    ready: {},
    startTimes: [],
    heardAtS: nowS,
    startedSinceTick: 0,
    sinceTick: NO_TRAFFIC,
    traffic: { fromS: nowS, totals: NO_TRAFFIC },
  };
}

/** Returns the pool of a worker; a worker that does both counts as decode. */
export function poolOf(name: PoolName): Pool {
  return name === 'prefill' ? 'prefill' : 'decode';
}

/** Returns the last decided target of a pool, without the workers that only stand in for leaving ones. */
export function decidedOf({ targets, replaced }: ModelState, pool: Pool): number | undefined {
  const target = targets[pool];
  return target === undefined ? undefined : target - (replaced?.[pool] ?? 0);
}

/** Returns the mean of a sum over a count; undefined if nothing was counted. */
export function meanOf(sum: number, count: number): number | undefined {
  return count > 0 ? sum / count : undefined;
}

/** Returns the state as a store keeps it. @throws RangeError for one that is too long */
export function packState(state: ModelState): string {
  const packed = { sources: mapValues(state.sources, packSource), folded: mapValues(state.folded, packAggregate) };
  const text = JSON.stringify({ ...state, ...packed }, rounded);
  if (Buffer.byteLength(text) > STATE_BYTES_MAX) {
    throw new RangeError(`the state of the planner has ${text.length} bytes, more than ${STATE_BYTES_MAX}`);
  }
  return text;
}

/** Whether a text in a store is a state: a folder of `stator local` has decisions and only a number beside them. */
export function isState(text: string): boolean {
  return text.startsWith('{');
}

/** Reads a stored state. @throws Error for a state of another version */
export function unpackState(text: string): ModelState {
  // Older states have `failures`, which no law reads.
  const { failures: _, ...raw } = JSON.parse(text) as Omit<ModelState, 'sources' | 'folded'> & {
    readonly sources: Record<string, PackedSource>;
    readonly folded: PerPool<PackedAggregate>;
    readonly failures?: unknown;
  };
  if (raw.v !== 1) throw new Error(`the state of the planner is of version ${JSON.stringify(raw.v)}; known: 1`);
  return { ...raw, sources: mapValues(raw.sources, unpackSource), folded: mapValues(raw.folded, unpackAggregate) };
}

/** `sorted` as `packSortedKeys` packs them. Older states have `keys`, as `packWorkerKeys` does, or the ids instead. */
type PackedAggregate = Omit<AggregatedWorkers, 'keys'> & {
  readonly sorted?: string;
  readonly keys?: string;
  readonly ids?: readonly string[];
};

function packAggregate({ keys, ...pool }: AggregatedWorkers): PackedAggregate {
  return { ...pool, sorted: packSortedKeys(keys) };
}

function unpackAggregate({ sorted, keys: packed, ids = [], ...pool }: PackedAggregate): AggregatedWorkers {
  if (sorted !== undefined) return { ...pool, keys: unpackSortedKeys(sorted) };
  return { ...pool, keys: packed === undefined ? ids.map((id) => workerKey(id)) : unpackWorkerKeys(packed) };
}

type PackedSource = readonly [
  epoch: string,
  seq: number,
  heardAtS: number,
  totals: Partial<Record<PoolName, number[]>>,
];

function packSource({ epoch, seq, heardAtS, totals }: KnownSource): PackedSource {
  return [epoch, seq, heardAtS, mapValues(totals, (each) => TRAFFIC_KEYS.map((key) => each[key]))];
}

function unpackSource([epoch, seq, heardAtS, totals]: PackedSource): KnownSource {
  const read = (row: readonly number[]): TrafficTotals =>
    Object.fromEntries(TRAFFIC_KEYS.map((key, at) => [key, row[at] ?? 0])) as TrafficTotals;
  return { epoch, seq, heardAtS, totals: mapValues(totals, read) };
}

function mapValues<K extends string, A, B>(of: Partial<Record<K, A>>, change: (value: A) => B): Record<K, B> {
  return Object.fromEntries(Object.entries(of).map(([key, value]) => [key, change(value as A)])) as Record<K, B>;
}

/** Rounds to 13 digits: three decimals of seconds, and eight digits of everything else that matters, are enough. */
function rounded(_: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(13)) : value;
}

/** Returns a pass as the laws read it. */
export function passOf(workerId: string, dpRank: number, row: readonly number[]) {
  return { workerId, dpRank, ...fromPassRow(row) };
}
