import type { DrainReason, Facts, HostAction, InstanceState, Interruption, Phase, Rules } from './types.ts';

/** Longest drain after a Spot notice, which comes two minutes ahead. */
const SPOT_DRAIN_MS = 90_000;
/** Time before the interruption at which a drain that began late must be over. */
const SPOT_MARGIN_MS = 10_000;
/** EC2 begins to end the instances of a capacity block this long before the end of the block. */
const BLOCK_END_MS = 30 * 60_000;
/** Ends of a worker within ten minutes that make the whole machine suspect. */
const FAILURES_MAX = 5;
/**
 * Time before the limit at which the agent tells workers to end at once, so that their streams move and are not cut.
 */
const HURRY_MS = 5000;
const HURRY_SHARE = 0.1;

/** Wish of the target state. Standby and Detached leave a serving instance as it is. */
export type Want = 'service' | 'warm' | 'end';

export function wantOf({ target }: Pick<Facts, 'target'>, { phase }: InstanceState): Want {
  if (target === undefined) return phase.kind === 'warm' || phase.kind === 'warming' ? 'warm' : 'service';
  if (target === 'Terminated') return 'end';
  return target.startsWith('Warmed:') ? 'warm' : 'service';
}

interface Ending {
  readonly reason: DrainReason;
  readonly untilMs: number;
}

/** Returns why the workers must end by when, the most urgent first; undefined = they may go on. */
export function endingOf(facts: Facts, state: InstanceState, rules: Rules): Ending | undefined {
  const { nowMs, spotAtMs, gpuFault } = facts;
  const { drainMs, hasGroup } = rules;
  const want = wantOf(facts, state);
  const { kind } = state.phase;
  const isRunning = kind === 'starting' || kind === 'serving' || kind === 'draining';
  const usual = nowMs + drainMs;
  const endings: Ending[] = [];
  if (facts.isStopping) endings.push({ reason: 'stop', untilMs: usual });
  if (want === 'end') endings.push({ reason: 'terminated', untilMs: usual });
  if (want === 'warm' && isRunning) endings.push({ reason: 'warmed', untilMs: usual });
  if (spotAtMs !== undefined && isRunning) {
    endings.push({ reason: 'spot', untilMs: Math.min(nowMs + SPOT_DRAIN_MS, spotAtMs - SPOT_MARGIN_MS) });
  }
  const blockLimitMs = blockLimit(facts, rules);
  if (blockLimitMs !== undefined && isRunning) endings.push({ reason: 'block-end', untilMs: blockLimitMs });
  if (kind === 'serving' && gpuFault !== undefined) endings.push({ reason: 'gpu', untilMs: usual });
  const isSick = facts.replicas.some(({ failures }) => failures >= FAILURES_MAX);
  if (kind === 'serving' && isSick && hasGroup) endings.push({ reason: 'worker', untilMs: usual });
  return endings.reduce<Ending | undefined>(
    (first, each) => (first === undefined || each.untilMs < first.untilMs ? each : first),
    undefined,
  );
}

/** Returns the time by which the end of a capacity block needs the workers gone, once a whole drain no longer fits. */
function blockLimit({ nowMs }: Facts, { blockEndsAtMs, drainMs }: Rules): number | undefined {
  const limitMs = blockEndsAtMs === undefined ? Number.POSITIVE_INFINITY : blockEndsAtMs - BLOCK_END_MS;
  return nowMs >= limitMs - drainMs ? limitMs : undefined;
}

/**
 * Returns the phase of an instance that must end. A drain keeps its reason, and its limit only ever comes nearer: it
 * does not begin anew with each look.
 */
export function drainingPhase(phase: Phase, { reason, untilMs }: Ending, nowMs: number): Phase {
  if (phase.kind === 'drained') return phase;
  if (phase.kind !== 'draining') return { kind: 'draining', reason, sinceMs: nowMs, untilMs };
  return untilMs < phase.untilMs ? { ...phase, reason, untilMs } : phase;
}

/** Returns what to tell the workers of a drain. */
export function drainActions({ replicas, nowMs }: Facts, phase: Phase & { kind: 'draining' }): readonly HostAction[] {
  const hurryMs = Math.min(HURRY_MS, (phase.untilMs - phase.sinceMs) * HURRY_SHARE);
  return replicas.flatMap(({ state, told }, replica): readonly HostAction[] => {
    if (state === 'absent') return [];
    if (nowMs >= phase.untilMs) return told === 'kill' ? [] : [{ kind: 'tell', replica, wish: 'kill' }];
    if (told === 'nothing') return [{ kind: 'tell', replica, wish: 'drain' }];
    if (nowMs >= phase.untilMs - hurryMs && told === 'drain') return [{ kind: 'tell', replica, wish: 'hurry' }];
    return [];
  });
}

/** Returns the notices that the planner has not heard of yet, and the state in which it has. */
export function tellNotices(facts: Facts, state: InstanceState, rules: Rules) {
  const { spotAtMs, rebalanceAtMs } = facts;
  const { blockEndsAtMs } = rules;
  const told = { ...state.told };
  const interruptions: Interruption[] = [];
  if (spotAtMs !== undefined && told.spotAtMs !== spotAtMs) {
    told.spotAtMs = spotAtMs;
    interruptions.push({ kind: 'spot-warning', deadlineAtMs: spotAtMs });
  }
  if (rebalanceAtMs !== undefined && told.rebalanceAtMs !== rebalanceAtMs) {
    told.rebalanceAtMs = rebalanceAtMs;
    interruptions.push({ kind: 'rebalance' });
  }
  const blockLimitMs = blockLimit(facts, rules);
  if (blockEndsAtMs !== undefined && blockLimitMs !== undefined && told.blockEndsAtMs !== blockEndsAtMs) {
    told.blockEndsAtMs = blockEndsAtMs;
    interruptions.push({ kind: 'spot-warning', deadlineAtMs: blockLimitMs });
  }
  const actions = interruptions.map((interruption): HostAction => ({ kind: 'interrupted', interruption }));
  return { state: interruptions.length === 0 ? state : { ...state, told }, actions };
}
