import {
  type EngineFacts,
  NO_TRAFFIC,
  type PlannerEventOf,
  type PlannerSignal,
  type PoolName,
  sourceOf,
  type TrafficTotals,
  unpackWorkerKeys,
  workerKey,
} from '../../protocol/index.ts';
import type { ForwardPass } from '../forward-pass/metrics.ts';
import type { Pool } from '../types.ts';
import {
  addTraffic,
  DIRECT_WORKERS_MAX,
  type DirectWorker,
  type ModelState,
  passOf,
  poolOf,
  trafficSince,
} from './model-state.ts';

/** A signal, and when the queue took it: seconds of the queue's clock. */
export interface SentSignal {
  readonly signal: PlannerSignal;
  readonly sentAtS: number;
}

/** What came of the signals of a batch. */
export interface FoldReport {
  /** Signals that said something new. */
  taken: number;
  /** Seen before, or older than what their source has said since. */
  repeated: number;
  /** Roll-ups that came too late to say what is now: what they counted counts all the same. */
  late: number;
  /** Workers beyond those that may tell of themselves. */
  surplus: number;
  hasRollup: boolean;
  /** Passes since the last look, to learn from: by pool, one worker's ranks each. */
  readonly samples: Readonly<Record<Pool, ForwardPass[][]>>;
  /** The last pass of each rank of a folded pool: not kept between batches, as there may be thousands. */
  passes: Partial<Record<Pool, ForwardPass[]>>;
}

/** Sources that are remembered; the one heard longest ago goes first. */
const SOURCES_MAX = 256;
const SOURCE_FORGOTTEN_S = 600;
/** A roll-up that is older says nothing of the load of now; a source that was silent for longer has its starts spread. */
export const STALE_S = 15;
const HELD_FORGOTTEN_S = 12;
const FAILURES_MAX = 16;
const START_TIMES_MAX = 20;

export function noReport(): FoldReport {
  return {
    taken: 0,
    repeated: 0,
    late: 0,
    surplus: 0,
    hasRollup: false,
    samples: { prefill: [], decode: [] },
    passes: {},
  };
}

/** A look was taken: what it was to know is known. */
export function beginAnew(report: FoldReport): void {
  report.hasRollup = false;
  report.passes = {};
  for (const pool of ['prefill', 'decode'] as const) report.samples[pool].length = 0;
}

/** Folds one signal into `state`, which it changes. False for one that says nothing new: it was seen before, or is folded elsewhere. */
export function foldSignal(state: ModelState, { signal, sentAtS }: SentSignal, report: FoldReport): boolean {
  const key = `${signal.type}/${sourceOf(signal)}`;
  const known = state.sources[key];
  const isNewEpoch = known === undefined || known.epoch !== signal.epoch;
  if (!isNewEpoch && signal.seq <= known.seq) {
    report.repeated++;
    return false;
  }
  report.taken++;
  state.nowS = Math.max(state.nowS, sentAtS);
  const source = { epoch: signal.epoch, seq: signal.seq, heardAtS: state.nowS, totals: isNewEpoch ? {} : known.totals };
  state.sources[key] = source;
  const isLate = state.nowS - sentAtS > STALE_S;
  switch (signal.type) {
    case 'worker.rollup': {
      if (isFolded(state, signal)) {
        source.totals = { [signal.component]: signal.totals };
        delete state.direct[signal.worker_id];
        return false;
      }
      const before = countTraffic(state, source, known, signal.component, signal.totals, signal.seq === 0);
      source.totals = { [signal.component]: before };
      if (isLate) report.late++;
      else foldWorker(state, signal, known !== undefined && !isNewEpoch, report);
      break;
    }
    case 'model.rollup':
      foldModel(state, signal, source, known, isLate, report);
      break;
    case 'worker.registered':
    case 'worker.draining':
    case 'worker.gone':
      foldChange(state, signal);
      state.isUrgent ||= signal.type === 'worker.gone';
      break;
    case 'request.held':
      if (isLate) report.late++;
      else {
        state.isUrgent ||= !(sourceOf(signal) in state.held);
        state.held[sourceOf(signal)] = { count: signal.held_count, atS: state.nowS };
      }
      break;
    case 'capacity.failed':
      state.failures = [...state.failures, { code: signal.code, pool: poolOf(signal.component), atS: state.nowS }];
      state.failures = state.failures.slice(-FAILURES_MAX);
      state.starting[poolOf(signal.component)]?.shift(); // it will not come: the next look wants another
      state.isUrgent = true;
      break;
    case 'capacity.interrupt':
      if (signal.kind === 'spot-warning' && signal.worker_id !== undefined) {
        const pool = poolOf(signal.component);
        state.changes[signal.worker_id] = { pool, isUp: false, atS: state.nowS };
        state.isUrgent = true;
      }
      break;
    case 'tick':
    case 'scale.ack':
      break;
  }
  return true;
}

/** Whether a process that folds its pool has said so of this worker, and is heard: what it counts counts once. */
function isFolded(
  { folded, nowS }: ModelState,
  { component, worker_id: id }: PlannerEventOf<'worker.rollup'>,
): boolean {
  const pool = folded[poolOf(component)];
  return pool !== undefined && nowS - pool.heardAtS <= SILENT_S && pool.keys.includes(workerKey(id));
}

type Source = ModelState['sources'][string];

/**
 * Counts what a source has seen since it was heard last, and returns what is counted now. Of one that begins (`isFirst`)
 * everything counts; one that is met later may have been counted elsewhere before, and is counted from there on.
 */
function countTraffic(
  state: ModelState,
  source: Source,
  known: Source | undefined,
  name: PoolName,
  totals: TrafficTotals,
  isFirst: boolean,
): TrafficTotals {
  const before = source.totals[name] ?? (isFirst ? NO_TRAFFIC : undefined);
  state.heardAtS = state.nowS;
  if (before === undefined) return totals;
  const grown = trafficSince(before, totals);
  state.traffic = { fromS: state.traffic.fromS, totals: addTraffic(state.traffic.totals, ofDemand(name, grown)) };
  state.sinceTick = addTraffic(state.sinceTick, ofDemand(name, grown));
  if (name !== 'prefill' || !hasDecode(state)) {
    const silentS = known === undefined || known.epoch !== source.epoch ? 0 : state.nowS - known.heardAtS;
    // What began while nothing was heard did not all begin now.
    const share = silentS > STALE_S ? STALE_S / silentS : 1;
    state.startedSinceTick += Math.round(grown.started * share);
  }
  return totals;
}

/** Prompts are counted where they are answered; a prefill worker adds its time to the first token alone. */
function ofDemand(name: PoolName, grown: TrafficTotals): TrafficTotals {
  if (name !== 'prefill') return grown;
  return { ...NO_TRAFFIC, ttft_sum_s: grown.ttft_sum_s, ttft_count: grown.ttft_count };
}

function hasDecode(state: ModelState): boolean {
  return (
    (state.folded.decode?.keys.length ?? 0) > 0 || Object.values(state.direct).some(({ pool }) => pool === 'decode')
  );
}

function foldWorker(
  state: ModelState,
  signal: PlannerEventOf<'worker.rollup'>,
  isCounted: boolean,
  report: FoldReport,
): void {
  const { worker_id: id, component, ranks, engine, has_passes: hasPasses } = signal;
  const pool = poolOf(component);
  if (!(id in state.direct) && Object.keys(state.direct).length >= DIRECT_WORKERS_MAX) {
    report.surplus++;
    return;
  }
  report.hasRollup = true;
  const [used, all] = [sumOf(ranks, 'kv_blocks'), sumOf(ranks, 'kv_blocks_max')];
  const worker: DirectWorker = {
    pool,
    heardAtS: state.nowS,
    isCounted,
    running: sumOf(ranks, 'running'),
    waiting: sumOf(ranks, 'waiting'),
    kvUse: all > 0 ? Math.min(1, used / all) : undefined,
    hasPasses,
    passes: ranks.flatMap(({ dp_rank, last }) => (last === undefined ? [] : [[dp_rank, ...last]])),
  };
  state.direct[id] = worker;
  state.engines = { ...state.engines, [pool]: engine };
  if (signal.draining === true) state.changes[id] = { pool, isUp: false, atS: state.nowS };
  else if (state.changes[id]?.isUp === true) delete state.changes[id];
  for (const { dp_rank, samples = [] } of ranks) {
    for (const row of samples) report.samples[pool].push([passOf(id, dp_rank, row)]);
  }
}

function sumOf<K extends string>(rows: readonly Readonly<Record<K, number>>[], key: K): number {
  return rows.reduce((total, row) => total + row[key], 0);
}

function foldModel(
  state: ModelState,
  signal: PlannerEventOf<'model.rollup'>,
  source: Source,
  known: Source | undefined,
  isLate: boolean,
  report: FoldReport,
): void {
  const counted: Source['totals'] = {};
  const { source: from } = signal;
  for (const [name, pool] of Object.entries(signal.pools) as [PoolName, (typeof signal.pools)[PoolName]][]) {
    if (pool === undefined) continue;
    counted[name] = countTraffic(state, source, known, name, pool.totals, signal.seq === 0);
    if (isLate) continue;
    const { running, waiting, behind, kv_use: kvUse, has_passes: hasPasses, engine } = pool;
    const keys = pool.worker_keys === undefined ? keysOf(pool.workers) : unpackWorkerKeys(pool.worker_keys);
    const key = poolOf(name);
    state.folded = {
      ...state.folded,
      [key]: {
        heardAtS: state.nowS,
        source: from,
        keys,
        running,
        waiting,
        behind,
        kvUse,
        hasPasses,
      },
    };
    if (engine !== undefined) state.engines = { ...state.engines, [key]: engine as EngineFacts };
    settleFolded(state, keys);
    for (const row of pool.samples ?? []) report.samples[key].push([passOf('', 0, row)]);
    report.passes[key] = (pool.engines ?? []).map(([id, dpRank, ...row]) => passOf(id, dpRank, row));
  }
  source.totals = { ...source.totals, ...counted };
  if (isLate) report.late++;
  else report.hasRollup = true;
}

function keysOf(ids: readonly string[] = []): readonly number[] {
  return [...new Set(ids)].map(workerKey);
}

/** A roll-up has these workers: that they came is known now. That one went was said later than the roll-up was begun. */
function settleFolded({ changes }: ModelState, keys: readonly number[]): void {
  const folded = new Set(keys);
  for (const [id, { isUp }] of Object.entries(changes)) if (isUp && folded.has(workerKey(id))) delete changes[id];
}

function foldChange(
  state: ModelState,
  signal: PlannerEventOf<'worker.registered' | 'worker.draining' | 'worker.gone'>,
): void {
  const pool = poolOf(signal.component);
  const isUp = signal.type === 'worker.registered';
  state.changes[signal.worker_id] = { pool, isUp, atS: state.nowS };
  if (signal.engine !== undefined) state.engines = { ...state.engines, [pool]: signal.engine };
  if (signal.type === 'worker.gone') delete state.direct[signal.worker_id];
}

/** Forgets what is too old to count, and notes which starts have come. To be called once a batch, after its signals. */
export function settleTime(state: ModelState): void {
  const { nowS } = state;
  keep(state.sources, ({ heardAtS }) => nowS - heardAtS <= SOURCE_FORGOTTEN_S);
  const surplus = Object.keys(state.sources).length - SOURCES_MAX * 2;
  if (surplus > 0) forgetOldest(state.sources, surplus, ({ heardAtS }) => heardAtS);
  const told = Object.keys(state.sources).filter((key) => CHANGE_KEY.test(key));
  forgetOldest(state.sources, told.length - CHANGES_MAX, ({ heardAtS }) => heardAtS, told);
  forgetOldest(state.changes, Object.keys(state.changes).length - CHANGES_MAX, ({ atS }) => atS);
  keep(state.direct, ({ heardAtS }) => nowS - heardAtS <= SILENT_S || nowS - state.heardAtS > 0);
  keep(state.held, ({ atS }) => nowS - atS <= HELD_FORGOTTEN_S);
  keep(state.changes, ({ atS, isUp }) => nowS - atS <= (isUp ? STALE_S * 2 : CHANGE_FORGOTTEN_S));
  for (const pool of ['prefill', 'decode'] as const) noteReady(state, pool);
}

/** Comings and goings that are remembered one by one: the next roll-up of the pool has them all. */
const CHANGES_MAX = 128;
const CHANGE_KEY = /^worker\.(registered|draining|gone)\//;

/** Takes `count` entries out of `of`, the oldest of `keys` first. */
function forgetOldest<T>(
  of: Record<string, T>,
  count: number,
  timeOf: (value: T) => number,
  keys: readonly string[] = Object.keys(of),
): void {
  if (count <= 0) return;
  const ages = keys.map((key) => ({ key, atS: timeOf(of[key]!) }));
  for (const { key } of ages.toSorted((one, other) => one.atS - other.atS).slice(0, count)) delete of[key];
}

/** A worker that is silent for so long while others speak serves nobody. */
const SILENT_S = 20;
/** A roll-up that was begun before a worker left, and comes after it was said, does not bring it back. */
const CHANGE_FORGOTTEN_S = 300;

function noteReady(state: ModelState, pool: Pool): void {
  const ready = readyOf(state, pool);
  const before = state.ready[pool] ?? 0;
  const waiting = state.starting[pool] ?? [];
  for (let come = ready - before; come > 0; come--) {
    const decidedAtS = waiting.shift();
    if (decidedAtS !== undefined)
      state.startTimes = [...state.startTimes, state.nowS - decidedAtS].slice(-START_TIMES_MAX);
  }
  state.starting[pool] = waiting;
  state.ready = { ...state.ready, [pool]: ready };
}

/** How many workers of a pool serve. */
export function readyOf(state: ModelState, pool: Pool): number {
  const { keys = [] } = state.folded[pool] ?? {};
  const folded = new Set(keys);
  const single = new Map<string, boolean>(); // whether it serves, of those that spoke for themselves
  for (const [id, worker] of Object.entries(state.direct)) if (worker.pool === pool) single.set(id, true);
  for (const [id, change] of Object.entries(state.changes)) if (change.pool === pool) single.set(id, change.isUp);
  let ready = keys.length;
  for (const [id, isUp] of single) {
    if (folded.has(workerKey(id)) !== isUp) ready += isUp ? 1 : -1;
  }
  return ready;
}

function keep<T>(of: Record<string, T>, isKept: (value: T) => boolean): void {
  for (const [key, value] of Object.entries(of)) if (!isKept(value)) delete of[key];
}
