import { reasonOf } from '../../errors/index.ts';
import { type PlannerConfig, PlannerConfigError, parsePlannerConfig, runsThroughputLoop } from '../config.ts';
import { poolsOf } from '../laws/pools.ts';
import { measuredCapacity, ownCapacity } from '../laws/rate.ts';
import { type Planner, type PlannerBounds, withBounds } from '../planner.ts';
import type { PerPool, Targets } from '../types.ts';
import { noReport } from './apply-signal.ts';
import { passesKept, RANKS_KEPT } from './asked-with.ts';
import { type AskedWith, isState, type ModelState, unpackState } from './model-state.ts';
import { targetsOf } from './targets.ts';
import { type LawTick, tickLaw } from './tick-law.ts';

/** Bounds and targets that a question may change, named as in a planner's file. */
export interface WhatIfBounds extends PlannerBounds {
  readonly ttft_ms?: number;
  readonly itl_ms?: number;
  readonly rate_target_load?: number;
  readonly rate_requests_per_second?: number;
  readonly rate_down_window_seconds?: number;
  readonly rate_step_max?: number;
  readonly start_seconds?: number;
  readonly idle_to_zero_seconds?: number;
}

/** Answer of the law to one question. */
export interface LawAnswer {
  /** Workers that serve or start. */
  readonly now: Targets;
  /** Targets after the next tick. */
  readonly targets: Targets;
  /** Whether the next tick would make a decision. */
  readonly decides: boolean;
  /** One sentence. */
  readonly reason: string;
  /** Targets once the windows are over that delay a change, if the demand stays; undefined for laws without them. */
  readonly settled?: Targets | undefined;
  /** Numbers behind the answer, by pool. */
  readonly pools: PerPool<{
    readonly need: number;
    /** Requests a second that a worker serves within its targets. */
    readonly capacity: number;
    /** Requests a second for which the pool is sized. */
    readonly demand: number;
    readonly limitedBy?: string | undefined;
  }>;
}

/** Answers of the law about a stored state: with the bounds as they are, and with others. */
export interface WhatIf {
  /** Time of the state. */
  readonly atMs: number;
  readonly present: LawAnswer;
  readonly other: LawAnswer;
  /** Facts that the answers do not know. */
  readonly notes: readonly string[];
}

/** A state that the law cannot be asked about. Its message says why. */
export class WhatIfRefusal extends Error {
  override readonly name = 'WhatIfRefusal';
}

/** A planner that is asked, and the time of a start that the question states. */
interface Asked extends Planner {
  /** @default as measured, or as configured */
  readonly startSeconds?: number | undefined;
}

/** Time by which the question comes after the state, in seconds: the law refuses the same time twice. */
const AFTER_S = 0.001;
/** Seconds of traffic that the throughput loop can be asked with. */
const TRAFFIC_S_MIN = 5;
/** Time before any state: a loop that ran then is due. */
const LONG_AGO_S = 0;

/**
 * Asks the law about the present state, with its bounds and with others. Neither changes anything: each answer is that
 * of a copy of the state.
 *
 * @param text state as a store has it
 * @throws WhatIfRefusal if the state says too little
 * @throws PlannerConfigError for bounds that contradict each other or those that stay
 */
export function askWhatIf(text: string, bounds: WhatIfBounds): WhatIf {
  const { ticked: planner, tickAtS } = stateOf(text);
  refuseHiddenRate(planner, bounds);
  const other = withBounds(planner, bounds);
  return {
    atMs: Math.round(1000 * tickAtS),
    present: answerOf(text, planner),
    other: answerOf(text, { ...other, startSeconds: bounds.start_seconds }),
    notes: [...notesOf(text, planner), ...unreadOf(bounds, other)],
  };
}

/** Refuses a rate for all pools if the configuration has one for each: the latter would hold, without a word. */
function refuseHiddenRate({ config }: Planner, bounds: WhatIfBounds): void {
  if (bounds.rate_requests_per_second === undefined || config.law !== 'rate') return;
  const pools = poolsOf(config);
  if (pools.some((pool) => ownCapacity(pool, config) == null)) return;
  const keys = pools.map((pool) => `rate_${pool}_requests_per_second`).join(' and ');
  throw new PlannerConfigError([
    `rate_requests_per_second would change nothing: the configuration of the planner has ${keys}`,
  ]);
}

/** Returns the planner that ticked last. */
export function plannerOf({ config, engines = {} }: AskedWith): Planner {
  return { config: parsePlannerConfig(config), engines };
}

/** A state that the law can be asked about. */
interface Questioned extends ModelState {
  readonly asked: AskedWith;
  /** The planner that ticked last. */
  readonly ticked: Planner;
}

function stateOf(text: string): Questioned {
  if (!isState(text)) {
    throw new WhatIfRefusal('this planner keeps its state in its own process: ask the console of that process');
  }
  try {
    const state = unpackState(text);
    const { asked } = state;
    if (asked !== undefined) return { ...state, asked, ticked: plannerOf(asked) };
  } catch (thrown) {
    throw new WhatIfRefusal(`this release cannot read the planner's state: ${reasonOf(thrown)}`);
  }
  throw new WhatIfRefusal('the planner has not ticked since it was updated, or is older');
}

function answerOf(text: string, planner: Asked): LawAnswer {
  const { tick, state } = ask(text, planner);
  const now = Object.fromEntries(
    poolsOf(planner.config).map((pool) => {
      const { ready = 0, starting = 0 } = tick.counts[pool] ?? {};
      return [pool, ready + starting];
    }),
  );
  const decided = targetsOf(state, tick, planner);
  const { rate } = tick.effect;
  const settled = rate === undefined ? undefined : settledTargets(text, planner);
  return {
    now,
    targets: { ...now, ...state.targets, ...decided?.targets },
    decides: decided !== undefined,
    reason: decided?.reason ?? tick.effect.reason,
    ...(settled === undefined ? {} : { settled }),
    pools: Object.fromEntries(
      Object.entries(rate?.pools ?? {}).map(([pool, { need, perEngine, rate: demand, limitedBy }]) => {
        return [pool, { need, capacity: perEngine, demand, ...(limitedBy === undefined ? {} : { limitedBy }) }];
      }),
    ),
  };
}

/** Returns the targets of the rate law without the needs that it remembers, in one step. */
function settledTargets(text: string, asked: Asked): Targets | undefined {
  const calm = { ...asked.config, rateStepMax: Number.MAX_SAFE_INTEGER, rateUpWindowSeconds: 0 };
  return ask(text, { ...asked, config: calm }, forgetNeeds).tick.effect.targets;
}

function forgetNeeds(state: ModelState): void {
  const { rate } = state.planner;
  const pools = Object.entries(rate.pools).map(([pool, each]) => [pool, { ...each, needs: [] }] as const);
  state.planner = { ...state.planner, rate: { ...rate, rates: [], pools: Object.fromEntries(pools) } };
}

/** Runs one tick of the law on a copy of the state. @param change changes the copy before */
function ask(
  text: string,
  planner: Asked,
  change = (_state: ModelState): void => {},
): { readonly tick: LawTick; readonly state: ModelState } {
  const state = stateOf(text);
  state.nowS = Math.max(state.nowS, state.tickAtS) + AFTER_S;
  change(state);
  makeDue(state, planner.config);
  const { counted, startSeconds: measured } = state.asked;
  const startSeconds = planner.startSeconds ?? measured;
  const report = { ...noReport(), passes: passesKept(state.asked) };
  return { tick: tickLaw(state, report, { planner, counted, startSeconds }), state };
}

/** Makes the loops of Dynamo's laws due. The throughput loop reads whole windows: what came since counts as one. */
function makeDue(state: ModelState, config: PlannerConfig): void {
  const { loops } = state.planner;
  const { fromS, totals } = state.traffic;
  const seconds = state.nowS - fromS;
  const asksTraffic = runsThroughputLoop(config) && seconds >= TRAFFIC_S_MIN;
  const throughputAtS = asksTraffic ? LONG_AGO_S : loops.throughputAtS;
  state.planner = { ...state.planner, loops: { ...loops, loadAtS: LONG_AGO_S, throughputAtS } };
  if (!asksTraffic) return;
  const windowS = config.throughputAdjustmentIntervalSeconds;
  const scaled = Object.entries(totals).map(([name, sum]) => [name, (sum * windowS) / seconds] as const);
  state.traffic = { fromS: state.nowS - windowS, totals: Object.fromEntries(scaled) as typeof totals };
}

function notesOf(text: string, { config }: Planner): readonly string[] {
  const { asked, traffic, nowS, folded } = stateOf(text);
  const isBlind = asked.passes === undefined && Object.values(folded).some(({ hasPasses }) => hasPasses);
  return [
    ...(config.law !== 'rate' && isBlind
      ? [`The law ${config.law} reads the passes of engines, which are kept for at most ${RANKS_KEPT} ranks.`]
      : []),
    ...(runsThroughputLoop(config) && nowS - traffic.fromS < TRAFFIC_S_MIN
      ? ['A window of traffic has just ended: ask again in some seconds for what the expected traffic needs.']
      : []),
  ];
}

/** Keys that only the law rate reads. */
const OF_RATE = ['rate_target_load', 'rate_requests_per_second', 'rate_step_max', 'idle_to_zero_seconds'] as const;

/** Returns a note for bounds of the question that the law does not read. */
function unreadOf(bounds: WhatIfBounds, { config }: Planner): readonly string[] {
  if (config.law === 'rate') return [...unreadTargetsOf(bounds, config), ...keptRatesOf(bounds, config)];
  const unread = OF_RATE.filter((key) => bounds[key] !== undefined);
  return unread.length === 0 ? [] : [`${unread.join(', ')}: the law ${config.law} does not read this.`];
}

function unreadTargetsOf(bounds: WhatIfBounds, config: PlannerConfig): readonly string[] {
  const targets = (['ttft_ms', 'itl_ms'] as const).filter((key) => bounds[key] !== undefined);
  const isMeasured = poolsOf(config).every((pool) => measuredCapacity(pool, config) != null);
  if (!isMeasured || targets.length === 0) return [];
  return [`${targets.join(' and ')}: the capacity of a worker is stated, and does not follow from the targets.`];
}

/** Returns a note for pools that keep their own rate. */
function keptRatesOf(bounds: WhatIfBounds, config: PlannerConfig): readonly string[] {
  if (bounds.rate_requests_per_second === undefined) return [];
  return poolsOf(config)
    .filter((pool) => ownCapacity(pool, config) != null)
    .map((pool) => `rate_requests_per_second: the pool ${pool} keeps its rate_${pool}_requests_per_second.`);
}
