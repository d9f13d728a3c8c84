import type { Facts, Hook, HostAction, InstanceState, Rules, Step } from './types.ts';

/** Heartbeats stop if nothing has moved for this long, so that a start that hangs ends with its hook. */
const PROGRESS_MS_MAX = 120_000;
/**
 * Time after which a hook that Auto Scaling does not know counts as over: the time-out of the hooks that
 * `npx cdk deploy` adds.
 */
const UNOPENED_MS_MAX = 300_000;
const FIRST_PAUSE_MS = 1000;
/** Longest pause between two tries to complete such a hook. */
const PAUSE_MS_MAX = 15_000;

/** Returns the state after a hook was completed. */
export function completed(state: InstanceState, hook: Hook): InstanceState {
  const unopened = { ...state.unopened };
  delete unopened[hook];
  return { ...state, ...(hook === 'launch' ? { isLaunched: true } : { isEnded: true }), unopened };
}

/**
 * Returns the state after Auto Scaling said that no such action is open. Either it is over, or it has not begun: an
 * instance can be ready before Auto Scaling opens the hook. So the agent tries again, but not for ever.
 */
export function refused(state: InstanceState, hook: Hook, nowMs: number): InstanceState {
  const sinceMs = state.unopened[hook]?.sinceMs ?? nowMs;
  const refusedMs = nowMs - sinceMs;
  if (refusedMs >= UNOPENED_MS_MAX) return completed(state, hook);
  const retryAtMs = nowMs + Math.min(PAUSE_MS_MAX, Math.max(FIRST_PAUSE_MS, refusedMs));
  return { ...state, unopened: { ...state.unopened, [hook]: { sinceMs, retryAtMs } } };
}

/** Completes the launch hook, unless there is none or it is complete. */
export function launchActions(
  state: InstanceState,
  facts: Facts,
  { hasHook }: Rules,
  result: 'CONTINUE' | 'ABANDON',
): readonly HostAction[] {
  return hasHook.launch && !state.isLaunched ? complete(state, 'launch', result, facts) : [];
}

/** Completes a hook, unless Auto Scaling refused that a moment ago. */
export function complete({ unopened }: InstanceState, hook: Hook, result: 'CONTINUE' | 'ABANDON', { nowMs }: Facts) {
  const { retryAtMs = 0 } = unopened[hook] ?? {};
  return nowMs >= retryAtMs ? [{ kind: 'complete', hook, result } as const] : [];
}

/** Adds a heartbeat if its hook is open, one is due, and something still moves. */
export function beat(
  state: InstanceState,
  hook: Hook,
  facts: Facts,
  rules: Rules,
  actions: readonly HostAction[],
): Step {
  const isOpen = rules.hasHook[hook] && !(hook === 'launch' ? state.isLaunched : state.isEnded);
  const isDue = facts.nowMs - state.heartbeatAtMs >= rules.heartbeatMs;
  const isMoving = hook === 'terminate' || facts.nowMs - facts.progressAtMs <= PROGRESS_MS_MAX;
  if (!isOpen || !isDue || !isMoving) return { state, actions };
  return { state: { ...state, heartbeatAtMs: facts.nowMs }, actions: [...actions, { kind: 'heartbeat', hook }] };
}
