import type { Account } from '../account.ts';
import { runningActivity } from '../activities.ts';
import { isWarm } from '../instances.ts';
import { terminate } from '../terminate.ts';
import type { Activity, FakeGroup, FakeInstance, HookResult, HookSpec, HookTransition } from '../types.ts';
import { type Answer, ApiError, type Call, validationError } from './call.ts';
import { shapeOfActivity } from './describe.ts';
import { groupOf, instanceOf } from './look-up.ts';

export function createGroup(account: Account, call: Call): Answer {
  const name = call.required('AutoScalingGroupName');
  if (account.groups.has(name)) {
    throw new ApiError(
      'AlreadyExists',
      `AutoScalingGroup by this name already exists - A group with the name ${name} already exists`,
    );
  }
  const min = Number(call.required('MinSize'));
  const max = Number(call.required('MaxSize'));
  const policy = call.within('MixedInstancesPolicy').within('LaunchTemplate');
  const types = policy.list('Overrides').map((override) => override.required('InstanceType'));
  const heartbeat = (hook: Call) => hook.whole('HeartbeatTimeout');
  account.addGroup({
    name,
    types: types.length > 0 ? types : ['m5.large'],
    isMixed: types.length > 0,
    zones: call.texts('AvailabilityZones'),
    min,
    max,
    desired: call.whole('DesiredCapacity') ?? min,
    protectsNew: call.flag('NewInstancesProtectedFromScaleIn') ?? false,
    rebalances: call.flag('CapacityRebalance') ?? false,
    graceSecs: call.whole('HealthCheckGracePeriod') ?? 0,
    hooks: call.list('LifecycleHookSpecificationList').map(
      (hook): HookSpec => ({
        name: hook.required('LifecycleHookName'),
        transition: hook.required('LifecycleTransition') as HookTransition,
        ...(heartbeat(hook) !== undefined && { heartbeatSecs: heartbeat(hook) as number }),
        ...(hook.has('DefaultResult') && { defaultResult: hook.required('DefaultResult') as HookResult }),
      }),
    ),
  });
  return {};
}

export function setDesiredCapacity(account: Account, call: Call): Answer {
  const group = groupOf(account, call);
  const desired = Number(call.required('DesiredCapacity'));
  if (desired > group.max) {
    throw validationError(
      `New SetDesiredCapacity value ${desired} is above max value ${group.max} for the AutoScalingGroup.`,
    );
  }
  if (desired < group.min) {
    throw validationError(
      `New SetDesiredCapacity value ${desired} is below min value ${group.min} for the AutoScalingGroup.`,
    );
  }
  group.desired = desired;
  account.pokeNow(group);
  return {};
}

export function terminateInstance(account: Account, call: Call): Answer {
  const decrements = call.required('ShouldDecrementDesiredCapacity') === 'true';
  if (!call.has('InstanceIds')) {
    const activity = terminateOne(account, call.required('InstanceId'), decrements);
    return { Activity: shapeOfActivity(account, activity) };
  }
  const { name } = groupOf(account, call);
  const ids = call.texts('InstanceIds');
  if (ids.length > 100) throw validationError('The number of instance ids that may be passed in is limited to 100');
  for (const id of ids) {
    if (instanceOf(account, id).group.name !== name) throw notInGroup(id, name);
  }
  const activities = ids.map((id) => terminateOne(account, id, decrements));
  return { Activities: activities.map((activity) => shapeOfActivity(account, activity)) };
}

/**
 * Ends an instance, protected or not. AWS does not say what a second call for an instance that already ends does; here
 * it fails with the documented `ScalingActivityInProgress` and decrements nothing.
 */
function terminateOne(account: Account, id: string, decrements: boolean): Activity {
  const instance = instanceOf(account, id);
  const { group, state } = instance;
  if (isWarm(instance)) throw notForWarm('TerminateInstanceInAutoScalingGroup', id);
  if (state.startsWith('Terminating') && state !== 'Terminating:Retained') {
    const running = runningActivity(account, instance)?.id ?? '';
    throw new ApiError('ScalingActivityInProgress', `Activity ${running} is in progress.`);
  }
  if (decrements && state !== 'Terminating:Retained') decrement(group);
  const by = decrements ? ', shrinking the capacity.' : '.';
  const cause = `instance ${id} was taken out of service in response to a user request${by}`;
  return terminate(account, instance, { cause, isGone: state === 'Terminating:Retained' });
}

function decrement(group: FakeGroup): void {
  if (group.desired <= group.min) {
    throw validationError(
      `Currently, desiredSize equals minSize (${group.min}). Terminating instance without replacement will violate group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false or lower group's min size.`,
    );
  }
  group.desired--;
}

export function setProtection(account: Account, call: Call): Answer {
  const { name } = groupOf(account, call);
  const ids = call.texts('InstanceIds');
  if (ids.length > 50) throw new ApiError('LimitExceeded', 'The number of instance ids is limited to 50 for each call');
  const instances = ids.map((id) => instanceOf(account, id));
  for (const instance of instances) {
    if (instance.group.name !== name) throw notInGroup(instance.id, name);
    if (isWarm(instance)) throw notForWarm('SetInstanceProtection', instance.id);
  }
  for (const instance of instances) instance.isProtected = call.required('ProtectedFromScaleIn') === 'true';
  for (const { group } of instances) account.poke(group);
  return {};
}

/** Reports the health of an instance; within the grace period of its group only if the call does not respect that. */
export function setHealth(account: Account, call: Call): Answer {
  const instance = instanceOf(account, call.required('InstanceId'));
  const isHealthy = call.required('HealthStatus') === 'Healthy';
  const respects = call.flag('ShouldRespectGracePeriod') ?? true;
  if (!isHealthy && respects && isInGrace(account, instance)) return {};
  instance.isHealthy = isHealthy;
  account.poke(instance.group);
  return {};
}

function isInGrace({ clock }: Account, { inServiceAtMs, group }: FakeInstance): boolean {
  const graceMs = (group.spec.graceSecs ?? 0) * 1000;
  return inServiceAtMs !== undefined && clock.nowMs() - inServiceAtMs < graceMs;
}

const PROCESSES = [
  'Launch',
  'Terminate',
  'AddToLoadBalancer',
  'AlarmNotification',
  'AZRebalance',
  'HealthCheck',
  'InstanceRefresh',
  'ReplaceUnhealthy',
  'ScheduledActions',
];

export function suspendProcesses(account: Account, call: Call): Answer {
  const group = groupOf(account, call);
  for (const process of processesOf(call)) group.suspended.add(process);
  return {};
}

export function resumeProcesses(account: Account, call: Call): Answer {
  const group = groupOf(account, call);
  for (const process of processesOf(call)) group.suspended.delete(process);
  account.pokeNow(group);
  return {};
}

/** "If you omit this property, all processes are specified." */
function processesOf(call: Call): readonly string[] {
  const named = call.texts('ScalingProcesses');
  const unknown = named.find((name) => !PROCESSES.includes(name));
  if (unknown !== undefined) throw validationError(`The process type ${unknown} is not valid.`);
  return named.length > 0 ? named : PROCESSES;
}

function notInGroup(id: string, group: string): ApiError {
  return validationError(`The instance ${id} is not part of Auto Scaling group ${group}.`);
}

/** "This operation cannot be called on instances in a warm pool." The words of AWS's error are not documented. */
function notForWarm(action: string, id: string): ApiError {
  return validationError(`${action} cannot be called on instance ${id} because it is in a warm pool.`);
}
