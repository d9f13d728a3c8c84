import type { Account } from './account.ts';
import { beginActivity, endActivity } from './activities.ts';
import { type Route, tellEnding } from './events.ts';
import { cancelActions, waitForHooks } from './hooks.ts';
import { isPrepared, isWarm, zonesByCount } from './instances.ts';
import { abandon, enterService, failLaunch, requestInstance } from './launch.ts';
import { terminate } from './terminate.ts';
import type { Activity, FakeGroup, FakeInstance, WarmPoolSpec } from './types.ts';

const INTO_POOL: Route = { origin: 'EC2', destination: 'WarmPool' };

/**
 * Returns how many instances the warm pool holds ("PutWarmPool"): the difference between the prepared capacity and the
 * desired one, and never fewer than the minimum size.
 */
export function warmPoolSize({ desired, max }: FakeGroup, { minSize, maxPrepared }: WarmPoolSpec): number {
  return Math.max(minSize, (maxPrepared ?? max) - desired);
}

/** Launches what the warm pool lacks, and ends what it has too many. */
export function fillWarmPool(account: Account, group: FakeGroup): void {
  const size = group.warmPool === undefined ? 0 : warmPoolSize(group, group.warmPool);
  const warm = account.of(group).filter(isWarm);
  for (const instance of warm.slice(size)) {
    terminate(account, instance, { cause: 'the warm pool has too many instances.' });
  }
  if (group.suspended.has('Launch') || account.clock.nowMs() < group.retryAtMs) return;
  for (let missing = size - warm.length; missing > 0; missing--) {
    if (!launchWarm(account, group)) return;
  }
}

function launchWarm(account: Account, group: FakeGroup): boolean {
  const cause = 'an instance was started in response to a difference in the warm pool.';
  const launched = requestInstance(account, group, zonesByCount(account, group));
  if ('failures' in launched) {
    for (const failure of launched.failures.slice(0, 1)) failLaunch(account, group, cause, failure);
    group.retryAtMs = account.clock.nowMs() + account.times.retryMs;
    account.clock.after(account.times.retryMs, () => account.poke(group));
    return false;
  }
  const { instance } = launched;
  const description = `Launching a new EC2 instance into warm pool: ${instance.id}`;
  const { id: instanceId, zone } = instance;
  const activity = beginActivity(account, group, { description, cause, zone, instanceId });
  account.setState(instance, 'Warmed:Pending', warmedState(group));
  account.later(instance, account.times.launchMs, () => {
    account.options.onLaunch?.(instance);
    prepare(account, instance, activity, 'autoscaling:EC2_INSTANCE_LAUNCHING', INTO_POOL);
  });
  return true;
}

/**
 * Takes an instance out of service and back into the warm pool. Its termination hooks pause it in Warmed:Pending:Wait
 * ("Use lifecycle hooks with a warm pool").
 */
export function returnToPool(account: Account, instance: FakeInstance, cause: string): void {
  const { group, id, zone } = instance;
  const description = `Returning EC2 instance to warm pool: ${id}`;
  const activity = beginActivity(account, group, { description, cause, zone, instanceId: id });
  cancelActions(instance);
  account.setState(instance, 'Warmed:Pending', warmedState(group));
  const route: Route = { origin: 'AutoScalingGroup', destination: 'WarmPool' };
  prepare(account, instance, activity, 'autoscaling:EC2_INSTANCE_TERMINATING', route);
}

function prepare(
  account: Account,
  instance: FakeInstance,
  activity: Activity,
  transition: 'autoscaling:EC2_INSTANCE_LAUNCHING' | 'autoscaling:EC2_INSTANCE_TERMINATING',
  route: Route,
): void {
  const { group } = instance;
  waitForHooks(account, instance, {
    transition,
    route,
    state: 'Warmed:Pending:Wait',
    done: (result, why) => {
      if (result === 'ABANDON') {
        abandon(account, instance, activity, why, route);
        return;
      }
      account.setState(instance, 'Warmed:Pending:Proceed');
      if (group.warmPool?.state !== 'Running') account.options.onStop?.(instance);
      account.setState(instance, warmedState(group));
      instance.isProtected = false;
      endActivity(account, activity, 'Successful');
      const ending = transition.endsWith('LAUNCHING') ? 'Launch Successful' : 'Terminate Successful';
      tellEnding(account, ending, activity, group, route);
      account.poke(group);
    },
  });
}

/** Takes one prepared instance of the warm pool into service. False if there is none. */
export function takeFromPool(account: Account, group: FakeGroup, cause: string): boolean {
  const prepared = account.of(group).find(isPrepared);
  if (prepared === undefined) return false;
  enterService(account, prepared, { cause, route: { origin: 'WarmPool', destination: 'AutoScalingGroup' } });
  return true;
}

function warmedState({ warmPool }: FakeGroup): string {
  return `Warmed:${warmPool?.state ?? 'Stopped'}`;
}
