import { createHash } from 'node:crypto';
import { toFileKeys } from '../config.ts';
import { gpusOfEngine } from '../laws/pools.ts';
import { type Planner, teach } from '../planner.ts';
import { eachPool, type Targets } from '../types.ts';
import { applySignal, type BatchReport, beginAnew, noReport, type SentSignal, STALE_S } from './apply-signal.ts';
import { askedWith } from './asked-with.ts';
import type { ModelState } from './model-state.ts';
import { missingRates } from './needs-passes.ts';
import { noteSample } from './note-sample.ts';
import { settleTime } from './settle-time.ts';
import { targetsOf } from './targets.ts';
import { type DecideOptions, enginesOf, type LawTick, tickLaw } from './tick-law.ts';
import { noteStarts } from './worker-counts.ts';

/** Targets that differ from the ones before. */
export interface NewDecision {
  readonly decisionId: number;
  readonly targets: Targets;
  readonly previous: Targets;
  readonly reason: string;
  readonly isAdvisory: boolean;
  readonly configHash: string;
}

export interface Decided {
  readonly state: ModelState;
  readonly report: BatchReport;
  readonly tick?: LawTick | undefined;
  readonly decision?: NewDecision | undefined;
}

/** Seconds for which the rest of a round of roll-ups is awaited. */
const ROUND_S = 2;
/** Seconds by which a roll-up may come early. Without this a tick would wait for the roll-up after it. */
const TOLERANCE_S = 0.5;

/**
 * Applies signals to `state`, which it changes, and asks the law at every tick that is due: with a roll-up after one
 * interval, without one after three, and at once for what cannot wait. The result does not depend on how signals are
 * split into batches, and signals that were seen before change nothing.
 */
export function decide(state: ModelState, signals: readonly SentSignal[], options: DecideOptions): Decided {
  const { planner } = options;
  const report = noReport();
  let tick: LawTick | undefined;
  let decision: NewDecision | undefined;
  for (const signal of signals) {
    if (!applySignal(state, signal, report)) continue;
    settleTime(state);
    if (!isDue(state, report, planner)) continue;
    if (isTaught(planner)) state.planner = teach(state.planner, planner.config, report.samples);
    const traffic = state.sinceTick;
    tick = tickLaw(state, report, options);
    state.asked = askedWith(report, options);
    beginAnew(report);
    if (!planner.config.advisory) noteStarts(state, tick.effect.targets ?? {}, tick.counts);
    const next = decisionOf(state, tick, planner);
    if (next !== undefined) decision = follow(state, tick, next, decision);
    const { ttftMs: ttft, itlMs: itl } = planner.config;
    const engines = { ...enginesOf(state), ...planner.engines };
    const gpus = eachPool((pool) => gpusOfEngine(pool, engines, planner.config));
    noteSample(state, { tick, traffic, fleet: options.fleet, targetMs: { ttft, itl }, gpus });
  }
  return { state, report, tick, decision };
}

/** Notes a new decision in `state`, and returns it as it counts after an earlier one of the same batch. */
function follow(state: ModelState, { atS }: LawTick, next: NewDecision, earlier: NewDecision | undefined): NewDecision {
  state.targets = { ...state.targets, ...next.targets };
  state.decidedAtS = atS;
  // Of several decisions in a batch the last one counts: no connector could have acted on the others.
  const { decisionId = next.decisionId, previous = next.previous } = earlier ?? {};
  state.decisionId = decisionId;
  return { ...next, decisionId, previous };
}

/** Returns whether the law asks how long passes take. */
function isTaught({ config }: Planner): boolean {
  return config.law === 'sla' || missingRates(config).length > 0;
}

function isDue(state: ModelState, report: BatchReport, { config }: Planner): boolean {
  const sinceS = state.nowS - state.tickAtS;
  if (sinceS <= 0) return false;
  if (state.isUrgent) return true;
  if (sinceS >= config.tickSeconds - TOLERANCE_S && report.hasRollup) {
    return isRoundComplete(state) || sinceS >= config.tickSeconds + ROUND_S;
  }
  return sinceS >= Math.max(STALE_S, 3 * config.tickSeconds);
}

/** A tick in the middle of a round would see the requests of half the workers now, and twice as many next time. */
function isRoundComplete({ direct, tickAtS }: ModelState): boolean {
  return Object.values(direct).every(({ heardAtS, isCounted }) => isCounted && heardAtS > tickAtS);
}

/** Returns undefined if what was decided stays: bringing the fleet there, and keeping it there, is not a decision. */
function decisionOf(state: ModelState, tick: LawTick, planner: Planner): NewDecision | undefined {
  const wanted = tick.atS < 0 ? undefined : targetsOf(state, tick, planner);
  if (wanted === undefined) return undefined;
  return {
    decisionId: state.decisionId + 1,
    targets: { ...state.targets, ...wanted.targets },
    previous: wanted.previous,
    reason: wanted.reason,
    isAdvisory: planner.config.advisory,
    configHash: hashOf(planner),
  };
}

/** Returns a short hash of the configuration that decides. */
function hashOf({ config, engines }: Planner): string {
  return createHash('sha256')
    .update(JSON.stringify([toFileKeys(config), engines]))
    .digest('hex')
    .slice(0, 16);
}
