import type { Account } from './account.ts';
import { type Route, tellAction } from './events.ts';
import type { FakeInstance, HookResult, HookSpec, HookTransition } from './types.ts';

const HEARTBEAT_SECS = 3600;
/** "Lifecycle hook limitations": 48 hours, or 100 times the heartbeat time-out, whichever is smaller. */
const WAIT_SECS_MAX = 172_800;
const HEARTBEATS_MAX = 100;

export interface Waiting {
  readonly transition: HookTransition;
  readonly route: Route;
  /** State while it waits, for example `Pending:Wait`. */
  readonly state: string;
  /** Called once, after all actions have ended. `why` is AWS's reason if one was abandoned. */
  readonly done: (result: HookResult, why: string) => void;
}

/**
 * Puts an instance into a wait state with one lifecycle action for each hook of the transition, and calls `done` once
 * the last has ended; at once if there is no such hook. Until `hookMs` has passed, Auto Scaling knows no action of it.
 * ABANDON ends the other actions too ("Complete a lifecycle action in an Auto Scaling group"). An action without a
 * heartbeat ends with the default result of its hook.
 */
export function waitForHooks(account: Account, instance: FakeInstance, waiting: Waiting): void {
  const hooks = instance.group.hooks.filter(({ transition }) => transition === waiting.transition);
  if (hooks.length === 0) {
    waiting.done('CONTINUE', '');
    return;
  }
  const open = (): void => {
    account.setState(instance, waiting.state);
    for (const hook of hooks) beginAction(account, instance, hook, waiting);
  };
  const { hookMs } = account.times;
  if (hookMs === 0) open();
  else account.later(instance, hookMs, open);
}

function beginAction(account: Account, instance: FakeInstance, hook: HookSpec, waiting: Waiting): void {
  const { clock } = account;
  const { heartbeatSecs = HEARTBEAT_SECS, defaultResult = 'ABANDON' } = hook;
  const token = account.uuid();
  const lastMs = clock.nowMs() + Math.min(WAIT_SECS_MAX, heartbeatSecs * HEARTBEATS_MAX) * 1000;
  const end = (result: HookResult, why: string): void => {
    timer.cancel();
    const index = instance.actions.indexOf(action);
    if (index < 0) return;
    instance.actions.splice(index, 1);
    if (result === 'ABANDON') cancelActions(instance);
    if (instance.actions.length === 0) {
      waiting.done(result, `Lifecycle Action with token ${token} was abandoned: ${why}`);
    }
  };
  const arm = () =>
    clock.after(Math.max(0, Math.min(heartbeatSecs * 1000, lastMs - clock.nowMs())), () =>
      end(defaultResult, 'Heartbeat Timeout'),
    );
  let timer = arm();
  const action = {
    hook,
    token,
    end,
    heartbeat: () => {
      timer.cancel();
      timer = arm();
    },
    cancel: () => timer.cancel(),
  };
  instance.actions.push(action);
  const { transition, route } = waiting;
  tellAction(account, { instance, token, hook: hook.name, transition, metadata: hook.metadata, route });
}

/** Ends the actions of an instance without a result, because another change overtakes them. */
export function cancelActions(instance: FakeInstance): void {
  for (const action of instance.actions.splice(0)) action.cancel();
}
