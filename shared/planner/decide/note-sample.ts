import type { TrafficTotals } from '../../protocol/index.ts';
import {
  type FleetSample,
  joinSamples,
  type LatencySample,
  type OptionSample,
  roundSample,
  type WorkerPhase,
} from '../record/fleet-sample.ts';
import type { OptionView } from '../record/option-view.ts';
import { type PerPool, POOLS } from '../types.ts';
import { type ModelState, unpackState } from './model-state.ts';
import { noteFailures } from './note-event.ts';
import { phasesOf } from './start-phases.ts';
import type { LawTick } from './tick-law.ts';

/**
 * Longest time in seconds for which a tick speaks. Of a longer one nothing is known except its end: no planner ran. A
 * fleet at rest has a tick a minute.
 */
const TICK_S_MAX = 180;

interface Seen {
  readonly tick: LawTick;
  /** Traffic since the tick before. */
  readonly traffic: TrafficTotals;
  /** Options of the fleet; undefined: the workers that were heard count. */
  readonly fleet: readonly OptionView[] | undefined;
  readonly targetMs: { readonly ttft: number; readonly itl: number };
  /** GPUs of a worker. */
  readonly gpus: PerPool<number>;
}

/** Adds what a tick saw to the sample of `state`, which begins anew whenever a tick is stored. */
export function noteSample(state: ModelState, seen: Seen): void {
  const failed = noteFailures(state, seen.fleet ?? []);
  const { sample: before, failedAtMs } = state.recorded ?? {};
  const now = sampleOf(state, seen, failed);
  state.recorded = { sample: before === undefined ? now : joinSamples(before, now), failedAtMs };
}

/** Returns the sample since the last stored tick, and begins the next one. */
export function takeSample(state: ModelState): FleetSample | undefined {
  const { sample, failedAtMs } = state.recorded ?? {};
  if (failedAtMs === undefined) delete state.recorded;
  else state.recorded = { failedAtMs };
  return sample;
}

/**
 * Returns the sample that is not stored yet, and the time at which it ends; undefined if there is none.
 * @param text state as a store has it. The folder of `stator local` has decisions without a state.
 */
export function readOpenSample(text: string): { readonly atMs: number; readonly sample: FleetSample } | undefined {
  if (!text.startsWith('{')) return undefined;
  const { tickAtS, recorded } = unpackState(text);
  return recorded?.sample && { atMs: Math.round(1000 * tickAtS), sample: roundSample(recorded.sample) };
}

/** @param failed options whose newest launch failed since the tick before */
function sampleOf(state: ModelState, seen: Seen, failed: ReadonlySet<string>): FleetSample {
  const { open: events = [], leftOut = 0, starts } = state.recorded ?? {};
  const { tick, traffic, targetMs } = seen;
  const seconds = Math.min(tick.seconds, TICK_S_MAX);
  const share = tick.seconds > 0 ? seconds / tick.seconds : 1;
  return {
    seconds,
    knownSeconds: tick.started === undefined ? 0 : seconds,
    // The law spreads what began in a silence; here everything counts.
    started: Math.max(traffic.started, tick.started ?? 0) * share,
    inputTokens: traffic.isl_sum * share,
    outputTokens: traffic.osl_sum * share,
    ttft: latencyOf(traffic.ttft_count, traffic.ttft_sum_s, targetMs.ttft),
    itl: latencyOf(traffic.itl_count, traffic.itl_sum_s, targetMs.itl),
    heldMax: tick.held,
    heldSeconds: tick.held * seconds,
    runningSeconds: tick.running * seconds,
    targets: state.targets,
    options: optionsOf(state, seen, seconds, failed),
    ...(starts === undefined ? {} : { starts }),
    events,
    eventsLeftOut: leftOut,
  };
}

function latencyOf(count: number, sumS: number, targetMs: number): LatencySample {
  const sumMs = 1000 * sumS;
  return { count, sumMs, met: sumMs <= targetMs * count ? count : 0, targetMs };
}

function optionsOf(
  state: ModelState,
  { tick, fleet, gpus }: Seen,
  seconds: number,
  failed: ReadonlySet<string>,
): FleetSample['options'] {
  const heard = POOLS.map((pool): OptionView => {
    const { ready = 0, starting = 0 } = tick.counts[pool] ?? {};
    return { pool, key: pool, serving: ready, starting, draining: 0, ordered: 0 };
  });
  const rows = (fleet ?? heard).map((view) => {
    const sample = optionSample(view, phasesOf(state, view.startingIds ?? []), gpus[view.pool] ?? 1, seconds);
    const failing = failed.has(view.key) ? { failing: view.failure?.code } : {};
    return [view.key, { ...sample, ...failing }] as const;
  });
  return Object.fromEntries(
    rows.filter(([, { workers, failing }]) => failing !== undefined || Object.keys(workers).length > 0),
  );
}

/** @param phases machines that start, by phase; empty: only their number is known */
function optionSample(
  view: OptionView,
  phases: ReadonlyMap<WorkerPhase, number>,
  gpusOfEngine: number,
  seconds: number,
): OptionSample {
  const { ordered, starting, serving, draining, gpusPerWorker = gpusOfEngine } = view;
  const workers: Partial<Record<WorkerPhase, number>> = {};
  const put = (phase: WorkerPhase, count: number): void => {
    if (count > 0) workers[phase] = count * seconds;
  };
  put('capacity', ordered);
  const machines = [...phases.values()].reduce((total, count) => total + count, 0);
  if (machines === 0) put('starting', starting);
  for (const [phase, count] of phases) put(phase, (starting * count) / machines);
  put('serving', serving);
  put('draining', draining);
  const gpuSeconds = (starting + serving + draining) * gpusPerWorker * seconds;
  return { workers, gpuSeconds };
}
