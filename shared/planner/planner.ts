import type { PlannerConfig } from './config.ts';
import type { ForwardPass } from './forward-pass/metrics.ts';
import { limitPower, type PowerReason } from './gpu-budget.ts';
import { endpointsMinOf } from './laws/load-loop.ts';
import { type RateInput, type RateOutcome, type RateState, startRate, tickRate } from './laws/rate.ts';
import {
  type LoopOutcome,
  type LoopState,
  learnPasses,
  observeEngines,
  startLoops,
  tickLoops,
  warmUp,
} from './loops.ts';
import { explainLoops, explainRate } from './reasons.ts';
import { saneInput } from './sane-input.ts';
import type { EngineCapabilities, PerPool, Pool, Targets, TickInput, TrafficWindow } from './types.ts';

/** What a planner remembers between ticks: plain values, so that any host can keep them. */
export interface PlannerState {
  readonly loops: LoopState;
  readonly rate: RateState;
}

/** What is wanted now and why. */
export interface PlannerEffect {
  /** Undefined: nothing is to change, or nothing is known. */
  readonly targets?: Targets | undefined;
  /** One sentence for people. */
  readonly reason: string;
  /** The numbers behind it. */
  readonly loops?: LoopOutcome | undefined;
  readonly rate?: RateOutcome | undefined;
  readonly power?: PowerReason | undefined;
  readonly nextTickS: number;
}

/** Everything that a law may ask for; each reads its part. */
export type PlannerInput = TickInput & Omit<RateInput, 'nowS' | 'counts'> & Pick<RateInput, 'counts'>;

export interface Planner {
  readonly config: PlannerConfig;
  readonly engines: PerPool<EngineCapabilities>;
}

export function startPlanner(nowS: number): PlannerState {
  return { loops: startLoops(nowS), rate: startRate(nowS) };
}

/** Learns from what was measured before: passes of a profile by pool, and windows of traffic, oldest first. */
export function teach(
  state: PlannerState,
  config: PlannerConfig,
  passes: PerPool<readonly (readonly ForwardPass[])[]>,
  windows: readonly TrafficWindow[] = [],
): PlannerState {
  return { ...state, loops: warmUp(learnPasses(state.loops, passes, config), windows, config) };
}

/** One tick. The same input twice changes nothing the second time: time must go on. */
export function tick(
  before: PlannerState,
  told: PlannerInput,
  { config, engines }: Planner,
): { readonly state: PlannerState; readonly effect: PlannerEffect } {
  if (!Number.isFinite(told.nowS)) throw new RangeError(`planner: nowS must be a number of seconds, not ${told.nowS}`);
  const input = saneInput(told);
  const nextTickS = input.nowS + config.tick_seconds;
  if (config.law !== 'rate') {
    const { state, outcome } = tickLoops(before.loops, input, config, engines);
    const { targets, power } = withinPower(outcome.targets, input, config, engines);
    const effect = { targets, reason: explainLoops(outcome, input.counts), loops: outcome, power, nextTickS };
    return { state: { ...before, loops: state }, effect };
  }
  const taught = observeEngines(before.loops, input, config);
  const { state, outcome } = tickRate(before.rate, input, config, engines, taught.models);
  const { targets, power } = withinPower(outcome.targets, input, config, engines);
  const effect = { targets, reason: explainRate(outcome, input.counts), rate: outcome, power, nextTickS };
  return { state: { loops: taught, rate: state }, effect };
}

/** Watts of one worker of a pool; undefined where nobody says. */
export function wattsOf(pool: Pool, config: PlannerConfig, engines: PerPool<EngineCapabilities>): number | undefined {
  return engines[pool]?.wattsPerReplica ?? config[`${pool}_engine_watts`] ?? undefined;
}

function withinPower(
  targets: Targets | undefined,
  { counts }: PlannerInput,
  config: PlannerConfig,
  engines: PerPool<EngineCapabilities>,
): { readonly targets: Targets | undefined; readonly power?: PowerReason | undefined } {
  const { enable_power_awareness: isOn, total_gpu_power_limit: wattsMax } = config;
  if (targets === undefined || !isOn || wattsMax == null) return { targets };
  const each = (read: (pool: Pool) => number) => ({ prefill: read('prefill'), decode: read('decode') });
  const current = each((pool) => counts[pool]?.ready ?? 0);
  const watts = each((pool) => wattsOf(pool, config, engines) ?? 0);
  const limited = limitPower(
    targets,
    current,
    watts,
    wattsMax,
    each((pool) => endpointsMinOf(pool, config)),
  );
  return { targets: limited.proposal, power: limited.reason };
}
