import {
  NO_TRAFFIC,
  type PlannerEventOf,
  type PlannerSignal,
  type PoolName,
  sourceOf,
  type TrafficTotals,
} from '../../protocol/index.ts';
import type { ForwardPass } from '../forward-pass/metrics.ts';
import { hasWorker, keysOfPool } from '../signals/aggregated-keys.ts';
import { addTraffic, trafficSince } from '../signals/traffic.ts';
import { loadOfWorker, SILENT_S } from '../signals/worker-load.ts';
import { POOLS, type Pool } from '../types.ts';
import { noteInterruption } from './interruptions.ts';
import { DIRECT_WORKERS_MAX, type KnownSource, type ModelState, passOf, poolOf } from './model-state.ts';
import { noteEvent } from './note-event.ts';
import { noteStartPhase } from './start-phases.ts';

/** A signal, and when the queue took it: seconds of the queue's clock. */
export interface SentSignal {
  readonly signal: PlannerSignal;
  readonly sentAtS: number;
}

/** Outcome of the signals of a batch. */
export interface BatchReport {
  /** Signals that said something new. */
  taken: number;
  /** Signals that were seen before, or are older than what their source has said since. */
  repeated: number;
  /** Roll-ups that came too late to say anything of the load now. The traffic that they counted counts all the same. */
  late: number;
  /** Workers beyond those that may report by themselves. */
  surplus: number;
  hasRollup: boolean;
  /** Passes since the last tick, to learn from: by pool, one worker's ranks each. */
  readonly samples: Readonly<Record<Pool, ForwardPass[][]>>;
  /** The last pass of each rank of an aggregated pool. Not kept between batches, because there may be thousands. */
  passes: Partial<Record<Pool, ForwardPass[]>>;
}

/**
 * Age in seconds after which a roll-up says nothing of the load now. The starts that a source reports after a longer
 * silence are spread over that silence.
 */
export const STALE_S = 15;

export function noReport(): BatchReport {
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

/** Forgets the input of a tick that is over. */
export function beginAnew(report: BatchReport): void {
  report.hasRollup = false;
  report.passes = {};
  for (const pool of POOLS) report.samples[pool].length = 0;
}

/**
 * Applies one signal to `state`, which it changes.
 * @returns false for a signal that says nothing new: it was seen before, or another process has aggregated it
 */
export function applySignal(state: ModelState, { signal, sentAtS }: SentSignal, report: BatchReport): boolean {
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
  const heard = { source, silentS: isNewEpoch ? 0 : state.nowS - known.heardAtS, isFirst: signal.seq === 0 };
  switch (signal.type) {
    case 'worker.rollup':
      return applyWorker(state, signal, { ...heard, isCounted: !isNewEpoch, isLate }, report);
    case 'model.rollup':
      applyModel(state, signal, { ...heard, isLate }, report);
      break;
    case 'worker.registered':
    case 'worker.draining':
    case 'worker.gone':
      applyChange(state, signal);
      break;
    case 'request.held':
      applyHeld(state, signal, isLate, report);
      break;
    case 'capacity.failed':
      applyFailure(state, signal);
      break;
    case 'capacity.interrupt':
      applyInterruption(state, signal, sentAtS);
      break;
    case 'host.phase':
      noteStartPhase(state, signal);
      break;
    case 'tick':
    case 'scale.ack':
      break;
  }
  return true;
}

/** A source of traffic, as its message finds it. */
interface HeardSource {
  readonly source: KnownSource;
  /** Seconds since its last message; 0 if it is heard for the first time under its epoch. */
  readonly silentS: number;
  /** The message is the first of its epoch. */
  readonly isFirst: boolean;
}

/** Counts what a source has seen since its last message, and notes its totals. */
function countTraffic(
  state: ModelState,
  { source, silentS, isFirst }: HeardSource,
  name: PoolName,
  totals: TrafficTotals,
): void {
  const grown = trafficSince(source.totals[name], totals, isFirst);
  source.totals = { ...source.totals, [name]: totals };
  state.heardAtS = state.nowS;
  const counted = ofDemand(state, name, grown);
  state.traffic = { fromS: state.traffic.fromS, totals: addTraffic(state.traffic.totals, counted) };
  state.sinceTick = addTraffic(state.sinceTick, counted);
  if (name === 'prefill' && hasWorkers(state, 'decode')) return;
  // Requests that began during a silence did not all begin now.
  const share = silentS > STALE_S ? STALE_S / silentS : 1;
  state.startedSinceTick += Math.round(grown.started * share);
}

/**
 * Returns what counts as demand. Prompts count at the worker that answers them. The time to the first token is that of
 * prefill workers, if there are some: a decode worker gets a prompt that has been computed.
 */
function ofDemand(state: ModelState, name: PoolName, grown: TrafficTotals): TrafficTotals {
  if (name === 'prefill') return { ...NO_TRAFFIC, ttft_sum_s: grown.ttft_sum_s, ttft_count: grown.ttft_count };
  return hasWorkers(state, 'prefill') ? { ...grown, ttft_sum_s: 0, ttft_count: 0 } : grown;
}

function hasWorkers(state: ModelState, pool: Pool): boolean {
  return (state.folded[pool]?.keys.length ?? 0) > 0 || Object.values(state.direct).some((each) => each.pool === pool);
}

interface HeardRollup extends HeardSource {
  readonly isLate: boolean;
}

/** @returns false if another process aggregates this worker, so that this roll-up must not count again */
function applyWorker(
  state: ModelState,
  signal: PlannerEventOf<'worker.rollup'>,
  heard: HeardRollup & { readonly isCounted: boolean },
  report: BatchReport,
): boolean {
  const { worker_id: id, component, totals } = signal;
  if (isAggregated(state, signal)) {
    heard.source.totals = { [component]: totals };
    delete state.direct[id];
    return false;
  }
  countTraffic(state, heard, component, totals);
  heard.source.totals = { [component]: totals };
  if (heard.isLate) report.late++;
  else noteWorker(state, signal, heard.isCounted, report);
  return true;
}

/** Returns whether a process that aggregates the worker's pool has named the worker, and is still heard. */
function isAggregated(
  { folded, nowS }: ModelState,
  { component, worker_id: id, host }: PlannerEventOf<'worker.rollup'>,
): boolean {
  const pool = folded[poolOf(component)];
  if (pool === undefined || nowS - pool.heardAtS > SILENT_S) return false;
  return hasWorker(new Set(pool.keys), id, host?.instance_id);
}

function noteWorker(
  state: ModelState,
  signal: PlannerEventOf<'worker.rollup'>,
  isCounted: boolean,
  report: BatchReport,
): void {
  const { worker_id: id, component, ranks, engine, has_passes: hasPasses, host } = signal;
  const instance = host?.instance_id;
  const pool = poolOf(component);
  if (!(id in state.direct) && Object.keys(state.direct).length >= DIRECT_WORKERS_MAX) {
    report.surplus++;
    return;
  }
  report.hasRollup = true;
  const { running, waiting, kvUse } = loadOfWorker(ranks);
  const passes = ranks.flatMap(({ dp_rank, last }) => (last === undefined ? [] : [[dp_rank, ...last]]));
  state.direct[id] = { pool, instance, heardAtS: state.nowS, isCounted, running, waiting, kvUse, hasPasses, passes };
  state.engines = { ...state.engines, [pool]: engine };
  if (signal.draining === true) state.changes[id] = { pool, instance, isUp: false, atS: state.nowS };
  else if (state.changes[id]?.isUp === true) delete state.changes[id];
  for (const { dp_rank, samples = [] } of ranks) {
    for (const row of samples) report.samples[pool].push([passOf(id, dp_rank, row)]);
  }
}

function applyModel(
  state: ModelState,
  signal: PlannerEventOf<'model.rollup'>,
  heard: HeardRollup,
  report: BatchReport,
): void {
  for (const [name, pool] of Object.entries(signal.pools) as [PoolName, (typeof signal.pools)[PoolName]][]) {
    if (pool === undefined) continue;
    countTraffic(state, heard, name, pool.totals);
    if (heard.isLate) continue;
    const { running, waiting, behind, kv_use: kvUse, has_passes: hasPasses, engine } = pool;
    const keys = keysOfPool(pool);
    const key = poolOf(name);
    const load = { heardAtS: state.nowS, source: signal.source, keys, running, waiting, behind, kvUse, hasPasses };
    state.folded = { ...state.folded, [key]: load };
    if (engine !== undefined) state.engines = { ...state.engines, [key]: engine };
    settleChanges(state, keys);
    for (const row of pool.samples ?? []) report.samples[key].push([passOf('', 0, row)]);
    report.passes[key] = (pool.engines ?? []).map(([id, dpRank, ...row]) => passOf(id, dpRank, row));
  }
  if (heard.isLate) report.late++;
  else report.hasRollup = true;
}

/**
 * Forgets that the workers of a roll-up came: the roll-up says so itself. A departure stays, because it was reported
 * after the roll-up was begun.
 */
function settleChanges({ changes }: ModelState, keys: readonly number[]): void {
  const serving = new Set(keys);
  for (const [id, { isUp, instance }] of Object.entries(changes)) {
    if (isUp && hasWorker(serving, id, instance)) delete changes[id];
  }
}

function applyChange(
  state: ModelState,
  signal: PlannerEventOf<'worker.registered' | 'worker.draining' | 'worker.gone'>,
): void {
  const pool = poolOf(signal.component);
  const isUp = signal.type === 'worker.registered';
  const instance = signal.instance_id ?? state.direct[signal.worker_id]?.instance;
  state.changes[signal.worker_id] = { pool, instance, isUp, atS: state.nowS };
  if (signal.engine !== undefined) state.engines = { ...state.engines, [pool]: signal.engine };
  if (signal.type !== 'worker.gone') return;
  delete state.direct[signal.worker_id];
  state.isUrgent = true;
}

function applyHeld(
  state: ModelState,
  signal: PlannerEventOf<'request.held'>,
  isLate: boolean,
  report: BatchReport,
): void {
  if (isLate) {
    report.late++;
    return;
  }
  state.isUrgent ||= !(sourceOf(signal) in state.held);
  state.held[sourceOf(signal)] = { count: signal.held_count, atS: state.nowS };
}

function applyFailure(state: ModelState, signal: PlannerEventOf<'capacity.failed'>): void {
  noteEvent(state, signal);
  state.starting[poolOf(signal.component)]?.shift(); // this worker will not come: the next tick asks for another
  state.isUrgent = true;
}

function applyInterruption(state: ModelState, signal: PlannerEventOf<'capacity.interrupt'>, sentAtS: number): void {
  noteEvent(state, signal);
  noteInterruption(state, signal, sentAtS);
  if (signal.kind !== 'spot-warning' || signal.worker_id === undefined) return;
  const { worker_id: id, instance_id: instance, component } = signal;
  state.changes[id] = { pool: poolOf(component), instance, isUp: false, atS: state.nowS };
  state.isUrgent = true;
}
