import type { Account } from './account.ts';
import { beginActivity, endActivity } from './activities.ts';
import { failureMessage, type Place, type ShortageCode } from './capacity.ts';
import { type Route, tellEnding } from './events.ts';
import { waitForHooks } from './hooks.ts';
import { isWarm, zonesByCount } from './instances.ts';
import { terminate } from './terminate.ts';
import type { Activity, FakeGroup, FakeInstance } from './types.ts';

interface LaunchFailure extends Place {
  readonly code: ShortageCode;
  readonly message: string;
}

export type Launched = { readonly instance: FakeInstance } | { readonly failures: readonly LaunchFailure[] };

/** Asks EC2 for one instance in one of the zones; each zone tries the types of the group in order. */
export function requestInstance(account: Account, group: FakeGroup, zones: readonly string[]): Launched {
  const failures: LaunchFailure[] = [];
  const { market = 'on-demand', types } = group.spec;
  for (const zone of zones) {
    for (const type of types) {
      const place = { type, zone, market };
      const isLost = account.lostZones.has(zone);
      const code = isLost ? 'InsufficientInstanceCapacity' : account.capacity.launch(place);
      if (code === undefined) return { instance: create(account, group, place) };
      const message = failureMessage(code, place, group.isMixed);
      failures.push({ ...place, code, message });
    }
  }
  return { failures };
}

function create(account: Account, group: FakeGroup, { type, zone, market }: Place): FakeInstance {
  const { version, imageId } = templateOf(group);
  const instance: FakeInstance = {
    id: account.instanceId(),
    group,
    type,
    zone,
    market,
    createdAtMs: account.clock.nowMs(),
    state: '',
    target: 'InService',
    history: [],
    isHealthy: true,
    isProtected: false,
    templateVersion: version,
    imageId,
    inServiceAtMs: undefined,
    isAtRisk: false,
    actions: [],
    step: 0,
  };
  account.add(instance);
  return instance;
}

/** Returns the template of new instances: that of the refresh which runs, otherwise the group's own. */
function templateOf({ refreshes, template }: FakeGroup): FakeGroup['template'] {
  const running = refreshes.at(-1);
  return running !== undefined && running.endMs === undefined ? running.target : template;
}

/** Launches one instance into service. False if nothing could be launched; each zone that failed has its activity. */
export function launch(account: Account, group: FakeGroup, cause: string): boolean {
  const launched = requestInstance(account, group, zonesByCount(account, group));
  if ('instance' in launched) {
    enterService(account, launched.instance, { cause, route: { origin: 'EC2', destination: 'AutoScalingGroup' } });
    return true;
  }
  for (const failure of oneForEachZone(launched.failures)) failLaunch(account, group, cause, failure);
  return false;
}

function oneForEachZone(failures: readonly LaunchFailure[]): LaunchFailure[] {
  return [...new Map(failures.map((failure) => [failure.zone, failure])).values()];
}

/** Notes a launch that EC2 refused. */
export function failLaunch(account: Account, group: FakeGroup, cause: string, failure: LaunchFailure): Activity {
  const { zone, message } = failure;
  const activity = beginActivity(account, group, { description: '', cause, zone });
  activity.description = `Launching a new EC2 instance.  Status Reason: ${message}`;
  endActivity(account, activity, 'Failed', message);
  tellEnding(account, 'Launch Unsuccessful', activity, group, { origin: 'EC2', destination: 'AutoScalingGroup' });
  return activity;
}

export interface Entry {
  readonly cause: string;
  readonly route: Route;
}

/** Brings a new instance, or one of the warm pool, into service: Pending, Pending:Wait, Pending:Proceed, InService. */
export function enterService(account: Account, instance: FakeInstance, { cause, route }: Entry): void {
  const { group, id, zone } = instance;
  const { times, options } = account;
  const wasWarm = isWarm(instance);
  const wasRunning = instance.state === 'Warmed:Running';
  const description = `Launching a new EC2 instance: ${id}`;
  const activity = beginActivity(account, group, { description, cause, zone, instanceId: id });
  account.setState(instance, 'Pending', 'InService');
  account.later(instance, wasRunning ? 0 : wasWarm ? times.warmStartMs : times.launchMs, () => {
    if (!wasWarm) options.onLaunch?.(instance);
    else if (!wasRunning) options.onStart?.(instance);
    activity.status = 'MidLifecycleAction';
    waitForHooks(account, instance, {
      transition: 'autoscaling:EC2_INSTANCE_LAUNCHING',
      route,
      state: 'Pending:Wait',
      done: (result, why) => {
        if (result === 'CONTINUE') serve(account, instance, activity, route);
        else abandon(account, instance, activity, why, route);
      },
    });
  });
}

function serve(account: Account, instance: FakeInstance, activity: Activity, route: Route): void {
  account.setState(instance, 'Pending:Proceed');
  account.setState(instance, 'InService');
  instance.inServiceAtMs = account.clock.nowMs();
  instance.isProtected = instance.group.spec.protectsNew ?? false;
  endActivity(account, activity, 'Successful');
  tellEnding(account, 'Launch Successful', activity, instance.group, route);
  account.poke(instance.group);
}

/** Ends an abandoned launch: the group terminates the instance and replaces it. */
export function abandon(account: Account, instance: FakeInstance, activity: Activity, why: string, route: Route): void {
  endActivity(account, activity, 'Failed', `Instance failed to complete user's Lifecycle Action: ${why}`);
  tellEnding(account, 'Launch Unsuccessful', activity, instance.group, route);
  terminate(account, instance, { cause: `instance ${instance.id} failed to complete its launch.`, isGone: true });
}
