import type { Account } from './account.ts';
import { beginActivity, endActivity, runningActivity } from './activities.ts';
import { type Route, tellEnding } from './events.ts';
import { cancelActions, waitForHooks } from './hooks.ts';
import { isWarm } from './instances.ts';
import type { Activity, FakeInstance } from './types.ts';

export interface Termination {
  readonly cause: string;
  /** Ends without lifecycle actions: EC2 has taken the instance already, or its launch was abandoned. */
  readonly isGone?: boolean;
}

/**
 * Takes an instance out of its group: Terminating:Wait until its hooks are done, Terminating:Proceed, Terminated. If an
 * action is abandoned and the group has an instance lifecycle policy, the instance stays as Terminating:Retained
 * ("Control instance retention with instance lifecycle policies"). Ending one in the warm pool takes the same steps in
 * states that begin with `Warmed:`.
 */
export function terminate(account: Account, instance: FakeInstance, { cause, isGone }: Termination): Activity {
  const { group, id, zone } = instance;
  const before = runningActivity(account, instance);
  if (before !== undefined) endActivity(account, before, 'Cancelled', `Instance ${id} is being terminated`);
  const activity = beginActivity(account, group, {
    description: `Terminating EC2 instance: ${id}`,
    cause,
    zone,
    instanceId: id,
  });
  const lead = isWarm(instance) ? 'Warmed:' : '';
  const route: Route = { origin: lead === '' ? 'AutoScalingGroup' : 'WarmPool', destination: 'EC2' };
  cancelActions(instance);
  account.setState(instance, `${lead}Terminating`, `${lead}Terminated`);
  account.poke(group);
  const end = (): void => proceed(account, instance, activity, route, lead);
  if (isGone) {
    end();
    return activity;
  }
  activity.status = 'MidLifecycleAction';
  waitForHooks(account, instance, {
    transition: 'autoscaling:EC2_INSTANCE_TERMINATING',
    route,
    state: `${lead}Terminating:Wait`,
    done: (result) => {
      if (result === 'CONTINUE' || !group.spec.retains) end();
      else retain(account, instance, activity, lead);
    },
  });
  return activity;
}

function retain(account: Account, instance: FakeInstance, activity: Activity, lead: string): void {
  account.setState(instance, `${lead}Terminating:Retained`);
  endActivity(account, activity, 'Successful');
}

function proceed(account: Account, instance: FakeInstance, activity: Activity, route: Route, lead: string): void {
  account.setState(instance, `${lead}Terminating:Proceed`);
  account.options.onTerminate?.(instance);
  account.later(instance, account.times.terminateMs, () => {
    account.setState(instance, `${lead}Terminated`);
    account.remove(instance);
    endActivity(account, activity, 'Successful');
    tellEnding(account, 'Terminate Successful', activity, instance.group, route);
    account.poke(instance.group);
  });
}
