import { START_FACTOR } from '../../config/index.ts';
import { assertNever } from '../../errors/index.ts';
import { drainActions, drainingPhase, endingOf, tellNotices, wantOf } from './endings.ts';
import { beat, complete, launchActions } from './hooks.ts';
import type { DrainReason, Facts, HostAction, InstanceState, Phase, Rules, Step } from './types.ts';

/** A start fails once one worker has ended this many times during it. */
const START_FAILURES_MAX = 2;
const FIRST_PAUSE_MS = 1000;
const PAUSE_MS_MAX = 60_000;

/** Returns the state of an instance whose agent starts for the first time since the boot. */
export function firstState(target: string | undefined, nowMs: number): InstanceState {
  const isWarm = target?.startsWith('Warmed:') === true;
  return {
    phase: { kind: isWarm ? 'warming' : 'starting', sinceMs: nowMs },
    isLaunched: false,
    isEnded: false,
    unopened: {},
    isReported: false,
    heartbeatAtMs: nowMs,
    told: {},
  };
}

/**
 * Returns the state with which a new agent goes on in the same boot. A machine without a group has no replacement, so
 * it tries a failed start again.
 */
export function resumed(state: InstanceState, target: string | undefined, nowMs: number, { hasGroup }: Rules) {
  return state.phase.kind === 'failed' && !hasGroup ? firstState(target, nowMs) : state;
}

/** Returns the state after Auto Scaling has taken note that the instance is unhealthy. */
export function reported(state: InstanceState): InstanceState {
  return { ...state, isReported: true };
}

/**
 * Law of one instance: takes what is known, and returns what to do now. It has no clock and does nothing itself; the
 * agent calls it whenever a fact has changed, and at least every few seconds.
 */
export function step(before: InstanceState, facts: Facts, rules: Rules): Step {
  const notices = tellNotices(facts, before, rules);
  const turned = turn(notices.state, facts, rules);
  const done = act(turned.state, facts, rules);
  return { state: done.state, actions: [...notices.actions, ...turned.actions, ...done.actions] };
}

/** Moves to the phase that the facts ask for. */
function turn(state: InstanceState, facts: Facts, rules: Rules): Step {
  const { nowMs } = facts;
  const ending = endingOf(facts, state, rules);
  const { phase } = state;
  if (ending !== undefined) {
    const next = drainingPhase(phase, ending, nowMs);
    const isNew = next.kind === 'draining' && phase.kind !== 'draining';
    return {
      state: { ...state, phase: next, ...(isNew ? { heartbeatAtMs: nowMs, isEnded: false, unopened: {} } : {}) },
      actions: [],
    };
  }
  const want = wantOf(facts, state);
  if (want === 'service' && hasBeenWarm(phase)) return { state: firstState(facts.target, nowMs), actions: [] };
  if (phase.kind === 'starting' || phase.kind === 'warming') {
    const reason = startFault(phase, facts, rules);
    if (reason === undefined) return { state, actions: [] };
    return { state: { ...state, phase: { kind: 'failed', reason } }, actions: [{ kind: 'start-failed', reason }] };
  }
  return { state, actions: [] };
}

/** Whether the instance is in the warm pool, or was about to enter it when the agent last looked. */
function hasBeenWarm(phase: Phase): boolean {
  return phase.kind === 'warm' || phase.kind === 'warming' || (phase.kind === 'drained' && phase.reason === 'warmed');
}

function startFault({ sinceMs }: { sinceMs: number }, facts: Facts, { startMs }: Rules): string | undefined {
  if (facts.gpuFault !== undefined) return facts.gpuFault;
  if (facts.preparation === 'failed') return 'the image or the weights cannot be fetched';
  const failed = facts.replicas.findIndex(({ failures }) => failures >= START_FAILURES_MAX);
  if (failed >= 0) return `worker ${failed} has ended ${START_FAILURES_MAX} times during the start`;
  const limitMs = startMs * START_FACTOR;
  return facts.nowMs - sinceMs > limitMs ? `the start has taken more than ${limitMs / 1000} s` : undefined;
}

function act(state: InstanceState, facts: Facts, rules: Rules): Step {
  const { phase } = state;
  switch (phase.kind) {
    case 'warming':
      return warming(state, facts, rules);
    case 'warm':
      return { state, actions: [] };
    case 'starting':
      return starting(state, facts, rules);
    case 'serving':
      return { state, actions: [...launchActions(state, facts, rules, 'CONTINUE'), ...restarts(facts)] };
    case 'failed':
      return { state, actions: failedActions(state, phase.reason, facts, rules) };
    case 'draining':
      return draining(state, phase, facts, rules);
    case 'drained':
      return drained(state, phase.reason, facts, rules);
    default:
      return assertNever(phase);
  }
}

function warming(state: InstanceState, facts: Facts, rules: Rules): Step {
  if (facts.preparation !== 'done') return beat(state, 'launch', facts, rules, [{ kind: 'prepare' }]);
  const isOver = state.isLaunched || !rules.hasHook.launch;
  if (isOver) return { state: { ...state, phase: { kind: 'warm' } }, actions: [] };
  return { state, actions: launchActions(state, facts, rules, 'CONTINUE') };
}

function starting(state: InstanceState, facts: Facts, rules: Rules): Step {
  if (facts.preparation !== 'done') return beat(state, 'launch', facts, rules, [{ kind: 'prepare' }]);
  if (facts.replicas.every((replica) => replica.state === 'ready')) {
    const serving: InstanceState = { ...state, phase: { kind: 'serving' } };
    return { state: serving, actions: launchActions(serving, facts, rules, 'CONTINUE') };
  }
  return beat(state, 'launch', facts, rules, restarts(facts));
}

/** Starts every worker that is absent, the later the more often it has ended. */
function restarts({ replicas, nowMs }: Facts): readonly HostAction[] {
  return replicas.flatMap(({ state, failures, endedAtMs = 0 }, replica): readonly HostAction[] => {
    const pauseMs = failures === 0 ? 0 : Math.min(PAUSE_MS_MAX, FIRST_PAUSE_MS * 2 ** (failures - 1));
    return state === 'absent' && nowMs >= endedAtMs + pauseMs ? [{ kind: 'start', replica }] : [];
  });
}

function failedActions(state: InstanceState, reason: string, facts: Facts, rules: Rules): readonly HostAction[] {
  const kills = facts.replicas.flatMap(({ state: now, told }, replica): readonly HostAction[] =>
    now === 'absent' || told === 'kill' ? [] : [{ kind: 'tell', replica, wish: 'kill' }],
  );
  if (rules.hasHook.launch) return [...kills, ...launchActions(state, facts, rules, 'ABANDON')];
  if (rules.hasGroup) return [...kills, ...unhealthy(state, reason, rules)];
  const isOver = facts.replicas.every((replica) => replica.state === 'absent');
  return isOver ? [{ kind: 'exit', code: 1 }] : kills;
}

function draining(
  state: InstanceState,
  phase: InstanceState['phase'] & { kind: 'draining' },
  facts: Facts,
  rules: Rules,
) {
  const { reason } = phase;
  const isOver = facts.replicas.every((replica) => replica.state === 'absent');
  if (isOver) {
    const over: InstanceState = { ...state, phase: { kind: 'drained', reason } };
    return drained(over, reason, facts, rules);
  }
  const want = wantOf(facts, state);
  const actions = [...drainActions(facts, phase), ...launchGivenUp(state, reason, facts, rules)];
  // A terminate hook keeps the instance until its drain is over, so its replacement may start at once.
  if (rules.hasHook.terminate) actions.push(...unhealthyBy(state, reason, facts, rules));
  const isHeld = want === 'end' || want === 'warm';
  return isHeld ? beat(state, 'terminate', facts, rules, actions) : { state, actions };
}

function drained(state: InstanceState, reason: DrainReason, facts: Facts, rules: Rules): Step {
  const want = wantOf(facts, state);
  const actions: HostAction[] = [
    ...launchGivenUp(state, reason, facts, rules),
    ...unhealthyBy(state, reason, facts, rules),
  ];
  // An agent that must stop has no time to wait for a hook to open.
  const isEnded = state.isEnded || (facts.isStopping && state.unopened.terminate !== undefined);
  if (want !== 'service' && rules.hasHook.terminate && !isEnded) {
    return { state, actions: [...actions, ...complete(state, 'terminate', 'CONTINUE', facts)] };
  }
  if (facts.isStopping) return { state, actions: [...actions, { kind: 'exit', code: 0 }] };
  if (want === 'warm') return { state: { ...state, phase: { kind: 'warm' }, isLaunched: true }, actions };
  // The agent that had to stop is back: the instance serves again, and its launch is long over.
  if (reason === 'stop') return { state: { ...firstState(facts.target, facts.nowMs), isLaunched: true }, actions };
  return { state, actions };
}

/** Gives up a launch that an interruption has overtaken. Auto Scaling ends a launch itself if it wants to. */
function launchGivenUp(state: InstanceState, reason: DrainReason, facts: Facts, rules: Rules): readonly HostAction[] {
  return reason === 'spot' || reason === 'block-end' ? launchActions(state, facts, rules, 'ABANDON') : [];
}

function unhealthyBy(state: InstanceState, reason: DrainReason, facts: Facts, rules: Rules): readonly HostAction[] {
  if (reason === 'gpu') return unhealthy(state, facts.gpuFault ?? 'a GPU is faulty', rules);
  return reason === 'worker' ? unhealthy(state, 'a worker ends again and again', rules) : [];
}

function unhealthy({ isReported }: InstanceState, reason: string, { hasGroup }: Rules): readonly HostAction[] {
  return hasGroup && !isReported ? [{ kind: 'unhealthy', reason }] : [];
}
