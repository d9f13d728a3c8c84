import type { Account } from '../account.ts';
import { isPrepared, isWarm } from '../instances.ts';
import type { Activity, FakeGroup, FakeInstance } from '../types.ts';
import { type Answer, type Call, validationError } from './call.ts';
import { groupOf, pageOf } from './look-up.ts';

/** "By default, you can only specify up to 50 names. You can optionally increase this limit using MaxRecords." */
const NAMES_USUAL = 50;

export function describeGroups(account: Account, call: Call): Answer {
  const names = call.texts('AutoScalingGroupNames');
  const most = call.whole('MaxRecords') ?? NAMES_USUAL;
  if (names.length > most) {
    throw validationError(`The number of Auto Scaling Group names that may be passed in is limited to ${most}`);
  }
  const groups = [...account.groups.values()].filter(({ name }) => names.length === 0 || names.includes(name));
  const { items, next } = pageOf(groups, call, { usual: NAMES_USUAL, most: 100 });
  const hasInstances = call.flag('IncludeInstances') ?? true;
  return { AutoScalingGroups: items.map((group) => shapeOfGroup(account, group, hasInstances)), NextToken: next };
}

function shapeOfGroup(account: Account, group: FakeGroup, hasInstances: boolean): Answer {
  const { spec, name, arn, min, max, desired, createdAtMs, warmPool, template, isMixed } = group;
  const all = account.of(group);
  const launchTemplate = templateShape(name, template.version);
  return {
    AutoScalingGroupName: name,
    AutoScalingGroupARN: arn,
    ...(isMixed
      ? {
          MixedInstancesPolicy: {
            LaunchTemplate: {
              LaunchTemplateSpecification: launchTemplate,
              Overrides: spec.types.map((type) => ({ InstanceType: type, ImageId: template.imageId })),
            },
          },
        }
      : { LaunchTemplate: launchTemplate }),
    MinSize: min,
    MaxSize: max,
    DesiredCapacity: desired,
    DefaultCooldown: 300,
    AvailabilityZones: spec.zones,
    HealthCheckType: 'EC2',
    HealthCheckGracePeriod: spec.graceSecs ?? 0,
    Instances: hasInstances ? all.filter((each) => !isWarm(each)).map(shapeOfInstance) : [],
    CreatedTime: new Date(createdAtMs),
    SuspendedProcesses: [...group.suspended].map((process) => ({
      ProcessName: process,
      SuspensionReason: `User suspended at ${new Date(createdAtMs).toISOString()}`,
    })),
    NewInstancesProtectedFromScaleIn: spec.protectsNew ?? false,
    CapacityRebalance: spec.rebalances,
    WarmPoolConfiguration: warmPool && warmPoolShape(group),
    WarmPoolSize: warmPool && all.filter(isPrepared).length,
    DefaultInstanceWarmup: spec.warmupSecs,
    Tags: Object.entries(spec.tags ?? {}).map(([Key, Value]) => ({
      ResourceId: name,
      ResourceType: 'auto-scaling-group',
      Key,
      Value,
      PropagateAtLaunch: true,
    })),
    InstanceLifecyclePolicy: spec.retains ? { RetentionTriggers: { TerminateHookAbandon: 'retain' } } : undefined,
  };
}

export function templateShape(group: string, version: string): Answer {
  return { LaunchTemplateId: `lt-${group}`, LaunchTemplateName: group, Version: version };
}

function shapeOfInstance(instance: FakeInstance): Answer {
  const { id, type, zone, state, isHealthy, isProtected, templateVersion, imageId, group } = instance;
  return {
    InstanceId: id,
    InstanceType: type,
    AvailabilityZone: zone,
    LifecycleState: state,
    HealthStatus: isHealthy ? 'Healthy' : 'Unhealthy',
    LaunchTemplate: templateShape(group.name, templateVersion),
    ImageId: imageId,
    ProtectedFromScaleIn: isProtected,
  };
}

export function describeInstances(account: Account, call: Call): Answer {
  const ids = call.texts('InstanceIds');
  if (ids.length > 50) throw validationError('The number of instance ids that may be passed in is limited to 50');
  const found = [...account.instances.values()].filter(({ id }) => ids.length === 0 || ids.includes(id));
  const { items, next } = pageOf(found, call, { usual: 50, most: 50 });
  return {
    AutoScalingInstances: items.map((instance) => ({
      ...(shapeOfInstance(instance) as Readonly<Record<string, Answer>>),
      HealthStatus: instance.isHealthy ? 'HEALTHY' : 'UNHEALTHY',
      AutoScalingGroupName: instance.group.name,
    })),
    NextToken: next,
  };
}

export function describeActivities(account: Account, call: Call): Answer {
  const name = call.text('AutoScalingGroupName');
  if (name !== undefined) groupOf(account, call);
  const ids = call.texts('ActivityIds');
  const filters = call.list('Filters').map((filter) => ({ name: filter.text('Name'), values: filter.texts('Values') }));
  const passes = (activity: Activity): boolean =>
    (name === undefined || activity.group === name) &&
    (ids.length === 0 || ids.includes(activity.id)) &&
    filters.every((filter) => matches(activity, filter));
  const found = account.activities.filter(passes).toReversed();
  const { items, next } = pageOf(found, call, { usual: 100, most: 100 });
  return { Activities: items.map((activity) => shapeOfActivity(account, activity)), NextToken: next };
}

function matches(
  activity: Activity,
  filter: { readonly name?: string | undefined; readonly values: string[] },
): boolean {
  const { name, values } = filter;
  const [first = ''] = values;
  if (name === 'StartTimeLowerBound') return activity.startMs >= Date.parse(first);
  if (name === 'StartTimeUpperBound') return activity.startMs <= Date.parse(first);
  if (name === 'Status') return values.includes(activity.status);
  throw validationError(`The filter ${name} is not valid.`);
}

export function shapeOfActivity(account: Account, activity: Activity): Answer {
  const group = account.groups.get(activity.group);
  return {
    ActivityId: activity.id,
    AutoScalingGroupName: activity.group,
    Description: activity.description,
    Cause: activity.cause,
    StartTime: new Date(activity.startMs),
    EndTime: activity.endMs === undefined ? undefined : new Date(activity.endMs),
    StatusCode: activity.status,
    StatusMessage: activity.message === '' ? undefined : activity.message,
    Progress: activity.progress,
    Details: JSON.stringify(activity.details),
    AutoScalingGroupARN: group?.arn,
  };
}

export function describeWarmPool(account: Account, call: Call): Answer {
  const group = groupOf(account, call);
  const warm = account.of(group).filter((instance) => instance.state.startsWith('Warmed:'));
  const { items, next } = pageOf(warm, call, { usual: 50, most: 50 });
  return {
    WarmPoolConfiguration: group.warmPool && warmPoolShape(group),
    Instances: items.map(shapeOfInstance),
    NextToken: next,
  };
}

function warmPoolShape({ warmPool }: FakeGroup): Answer {
  if (warmPool === undefined) return undefined;
  return {
    MaxGroupPreparedCapacity: warmPool.maxPrepared,
    MinSize: warmPool.minSize,
    PoolState: warmPool.state,
    InstanceReusePolicy: { ReuseOnScaleIn: warmPool.reuses },
  };
}
