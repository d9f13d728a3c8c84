import type { RefreshStrategy } from '@aws-sdk/client-auto-scaling';
import type { Account } from '../account.ts';
import { beginRefresh, rollBack, runningRefresh } from '../refresh.ts';
import type { FakeGroup, Refresh, RefreshPreferences, Template } from '../types.ts';
import { type Answer, ApiError, type Call, validationError } from './call.ts';
import { templateShape } from './describe.ts';
import { groupOf, pageOf } from './look-up.ts';

export function startRefresh(account: Account, call: Call): Answer {
  const group = groupOf(account, call);
  if (runningRefresh(group) !== undefined) {
    throw new ApiError(
      'InstanceRefreshInProgress',
      'An Instance Refresh is already in progress and blocks the execution of this Instance Refresh.',
    );
  }
  const strategy = (call.text('Strategy') ?? 'Rolling') as RefreshStrategy;
  const preferences = preferencesOf(call.within('Preferences'));
  if (preferences.maxHealthy < 100 || preferences.maxHealthy - preferences.minHealthy > 100) {
    throw validationError('MaxHealthyPercentage must be between 100 and 200, and at most 100 above the minimum.');
  }
  const target = targetOf(group, call.within('DesiredConfiguration'));
  const isReversible = isReversibleWith(group, call.within('DesiredConfiguration'));
  if (preferences.rollsBack && !isReversible) {
    throw validationError(
      'AutoRollback requires a desired configuration that names a version of a launch template with an AMI ID.',
    );
  }
  if (strategy === 'ReplaceRootVolume') requireImages(group, call, target);
  const { id } = beginRefresh(account, group, { strategy, preferences, target, isReversible });
  return { InstanceRefreshId: id };
}

/**
 * "Undo changes with a rollback": not without a desired configuration, with `$Latest` or `$Default`, or if the launch
 * template names its image by a parameter.
 */
function isReversibleWith({ spec }: FakeGroup, wanted: Call): boolean {
  const policy = wanted.within('MixedInstancesPolicy').within('LaunchTemplate').within('LaunchTemplateSpecification');
  const version = wanted.within('LaunchTemplate').text('Version') ?? policy.text('Version');
  return version !== undefined && !version.startsWith('$') && !spec.namesImageByParameter;
}

/** Returns the template that a refresh is to reach. */
function targetOf(group: FakeGroup, wanted: Call): Template {
  const policy = wanted.within('MixedInstancesPolicy').within('LaunchTemplate');
  const version =
    wanted.within('LaunchTemplate').text('Version') ?? policy.within('LaunchTemplateSpecification').text('Version');
  const imageId = policy.list('Overrides')[0]?.text('ImageId');
  const isNamed = version !== undefined && !version.startsWith('$');
  const other = version === '$Latest' ? group.latest : group.template.version;
  return { version: isNamed ? version : other, imageId: imageId ?? group.template.imageId };
}

/** "Replace root volumes during instance refresh", Requirements. */
function requireImages(group: FakeGroup, call: Call, target: Template): void {
  const policy = call.within('DesiredConfiguration').within('MixedInstancesPolicy').within('LaunchTemplate');
  const overrides = policy.list('Overrides');
  const hasImages = overrides.length > 0 && overrides.every((override) => override.has('ImageId'));
  if (group.isMixed && hasImages && target.imageId !== undefined) return;
  throw validationError(
    'ReplaceRootVolume requires a desired configuration with a mixed instances policy whose overrides all specify an ImageId.',
  );
}

function preferencesOf(given: Call): RefreshPreferences {
  return {
    minHealthy: given.whole('MinHealthyPercentage') ?? 90,
    maxHealthy: given.whole('MaxHealthyPercentage') ?? 100,
    warmupSecs: given.whole('InstanceWarmup'),
    bakeSecs: given.whole('BakeTime') ?? 0,
    skipsMatching: given.flag('SkipMatching') ?? false,
    rollsBack: given.flag('AutoRollback') ?? false,
    protectedOnes: (given.text('ScaleInProtectedInstances') ?? 'Wait') as RefreshPreferences['protectedOnes'],
    alarms: given.within('AlarmSpecification').texts('Alarms'),
  };
}

export function cancelRefresh(account: Account, call: Call): Answer {
  const group = groupOf(account, call);
  const refresh = activeRefresh(group);
  refresh.status = 'Cancelling';
  account.poke(group);
  return { InstanceRefreshId: refresh.id };
}

export function rollBackRefresh(account: Account, call: Call): Answer {
  const group = groupOf(account, call);
  const refresh = activeRefresh(group);
  if (!refresh.isReversible) {
    throw new ApiError('IrreversibleInstanceRefresh', 'The instance refresh cannot be rolled back.');
  }
  rollBack(account, group, refresh);
  return { InstanceRefreshId: refresh.id };
}

function activeRefresh(group: FakeGroup): Refresh {
  const refresh = runningRefresh(group);
  if (refresh !== undefined) return refresh;
  throw new ApiError(
    'ActiveInstanceRefreshNotFound',
    `No in progress or pending Instance Refresh found for Auto Scaling group ${group.name}`,
  );
}

export function describeRefreshes(account: Account, call: Call): Answer {
  const group = groupOf(account, call);
  const ids = call.texts('InstanceRefreshIds');
  const found = group.refreshes.filter(({ id }) => ids.length === 0 || ids.includes(id)).toReversed();
  const { items, next } = pageOf(found, call, { usual: 50, most: 100 });
  return { InstanceRefreshes: items.map((refresh) => shapeOf(group, refresh)), NextToken: next };
}

function shapeOf(group: FakeGroup, refresh: Refresh): Answer {
  const { id, status, reason, strategy, startMs, endMs, total, remaining, preferences, target } = refresh;
  const done = total - remaining.size;
  return {
    InstanceRefreshId: id,
    AutoScalingGroupName: group.name,
    Status: status,
    StatusReason: reason === '' ? undefined : reason,
    StartTime: new Date(startMs),
    EndTime: endMs === undefined ? undefined : new Date(endMs),
    PercentageComplete: total === 0 ? 100 : Math.floor((100 * done) / total),
    InstancesToUpdate: remaining.size,
    Strategy: strategy,
    Preferences: {
      MinHealthyPercentage: preferences.minHealthy,
      MaxHealthyPercentage: preferences.maxHealthy,
      SkipMatching: preferences.skipsMatching,
      AutoRollback: preferences.rollsBack,
      ScaleInProtectedInstances: preferences.protectedOnes,
      InstanceWarmup: preferences.warmupSecs,
      AlarmSpecification: { Alarms: preferences.alarms },
    },
    DesiredConfiguration: { LaunchTemplate: templateShape(group.name, target.version) },
  };
}
