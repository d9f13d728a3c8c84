import {
  type EngineFacts,
  NO_TRAFFIC,
  type PassRow,
  type PoolName,
  packWorkerKeys,
  type TrafficTotals,
  unpackWorkerKeys,
  workerKey,
} from '../../protocol/index.ts';
import { type PlannerState, startPlanner } from '../planner.ts';
import { TRAFFIC_KEYS } from '../signals/traffic.ts';
import type { PerPool, Pool } from '../types.ts';

/** Workers that tell a planner of themselves; more need a process that folds what they say. */
export const DIRECT_WORKERS_MAX = 200;
/** Longest state in bytes of JSON: two fifths of what an item of DynamoDB holds. A pool of 20,000 workers takes two thirds of it. */
export const STATE_BYTES_MAX = 160 * 1024;

/** What a worker that is not folded said last. */
export interface DirectWorker {
  readonly pool: Pool;
  readonly heardAtS: number;
  /** It was heard before, so that what it has served meanwhile is known. */
  readonly isCounted: boolean;
  readonly running: number;
  readonly waiting: number;
  /** Of its KV cache, 0 to 1. */
  readonly kvUse: number | undefined;
  readonly hasPasses: boolean;
  /** The last pass of each rank, as `[rank, ...pass]`. */
  readonly passes: readonly (readonly number[])[];
}

/** A pool as the process that folds it said last. */
export interface AggregatedWorkers {
  readonly heardAtS: number;
  readonly source: string;
  /** Of each worker, see `workerKey`: the ids themselves would be four times as long. */
  readonly keys: readonly number[];
  readonly running: number;
  readonly waiting: number;
  /** Workers at which more requests wait than run. */
  readonly behind?: number | undefined;
  readonly kvUse: number | undefined;
  readonly hasPasses: boolean;
}

/** Numbers of one source's events, so that none counts twice: forgotten ten minutes after the last one. */
export interface KnownSource {
  readonly epoch: string;
  readonly seq: number;
  readonly heardAtS: number;
  /** By pool: the totals that were counted last. */
  totals: Partial<Record<PoolName, TrafficTotals>>;
}

/**
 * Everything that a planner remembers of a model between two batches of events, as plain values. Times are seconds of the queue's
 * clock: those of senders and of planners count nowhere.
 */
export interface ModelState {
  readonly v: 1;
  planner: PlannerState;
  /** The latest event. */
  nowS: number;
  /** The latest tick of the law. */
  tickAtS: number;
  /** Something was said since that is not to wait for the next tick: it is due with the next signal that is later. */
  isUrgent: boolean;
  /** Of the last decision; -1 before the first. */
  decisionId: number;
  /** What was decided last. */
  targets: PerPool<number>;
  sources: Record<string, KnownSource>;
  direct: Record<string, DirectWorker>;
  folded: PerPool<AggregatedWorkers>;
  engines: PerPool<EngineFacts>;
  /** What single workers said of coming and going, until the next roll-up of their pool has it too. */
  changes: Record<string, { readonly pool: Pool; readonly isUp: boolean; readonly atS: number }>;
  held: Record<string, { readonly count: number; readonly atS: number }>;
  /** Starts that were decided and have not come yet: when, the oldest first. */
  starting: Partial<Record<Pool, number[]>>;
  /** Workers that were seen last, by pool. */
  ready: PerPool<number>;
  /** Seconds from a decision to a worker that serves: the last twenty. */
  startTimes: number[];
  heardAtS: number;
  /** Requests that began since the last tick. */
  startedSinceTick: number;
  /** Since the last tick, and since the last tick of the throughput loop. */
  sinceTick: TrafficTotals;
  traffic: { fromS: number; totals: TrafficTotals };
  failures: { readonly code: string; readonly pool: Pool; readonly atS: number }[];
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
    failures: [],
  };
}

/** The pool of a worker: that of an aggregated fleet counts as decode. */
export function poolOf(name: PoolName): Pool {
  return name === 'prefill' ? 'prefill' : 'decode';
}

/** Mean of what a sum and a count say; undefined where nothing was counted. */
export function meanOf(sum: number, count: number): number | undefined {
  return count > 0 ? sum / count : undefined;
}

/** The state as it is kept. @throws RangeError for one that is too long */
export function packState(state: ModelState): string {
  const packed = { sources: mapValues(state.sources, packSource), folded: mapValues(state.folded, packAggregate) };
  const text = JSON.stringify({ ...state, ...packed }, rounded);
  if (Buffer.byteLength(text) > STATE_BYTES_MAX) {
    throw new RangeError(`the state of the planner has ${text.length} bytes, more than ${STATE_BYTES_MAX}`);
  }
  return text;
}

/** @throws Error for what is no state of this version */
export function unpackState(text: string): ModelState {
  const raw = JSON.parse(text) as Omit<ModelState, 'sources' | 'folded'> & {
    readonly sources: Record<string, PackedSource>;
    readonly folded: PerPool<PackedAggregate>;
  };
  if (raw?.v !== 1) throw new Error(`the state of the planner is of version ${JSON.stringify(raw?.v)}; known: 1`);
  return { ...raw, sources: mapValues(raw.sources, unpackSource), folded: mapValues(raw.folded, unpackAggregate) };
}

/** `keys` as `packWorkerKeys` packs them; before there were keys the ids stood here. */
type PackedAggregate = Omit<AggregatedWorkers, 'keys'> & { readonly keys?: string; readonly ids?: readonly string[] };

function packAggregate({ keys, ...pool }: AggregatedWorkers): PackedAggregate {
  return { ...pool, keys: packWorkerKeys(keys) };
}

function unpackAggregate({ keys: packed, ids = [], ...pool }: PackedAggregate): AggregatedWorkers {
  return { ...pool, keys: packed === undefined ? ids.map(workerKey) : unpackWorkerKeys(packed) };
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

/** Three digits behind the point of seconds, and eight of everything that matters, are enough. */
function rounded(_: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(13)) : value;
}

/** A pass as the laws read it. */
export function passOf(workerId: string, dpRank: number, row: readonly number[] | PassRow) {
  const [wallTimeS = 0, np = 0, pt = 0, pkv = 0, nd = 0, dkv = 0, qnp = 0, qpt = 0, qnd = 0, qdkv = 0] = row;
  return {
    workerId,
    dpRank,
    wallTimeS,
    prefillRequests: np,
    prefillTokens: pt,
    prefillKvTokens: pkv,
    decodeRequests: nd,
    decodeKvTokens: dkv,
    queuedPrefillRequests: qnp,
    queuedPrefillTokens: qpt,
    queuedDecodeRequests: qnd,
    queuedDecodeKvTokens: qdkv,
  };
}
