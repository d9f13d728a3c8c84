import type { AutoScalingGroup, Instance } from '@aws-sdk/client-auto-scaling';
import type { ObservedInstance, ObservedOption } from '../live/connector.ts';
import type { InstanceLoad } from '../options/instance-loads.ts';

/** Facts about an instance that its group does not state. */
export interface InstanceMemory {
  readySinceMs(instanceId: string): number | undefined;
  loadOf(instanceId: string): InstanceLoad | undefined;
}

/**
 * Returns what the lifecycle state of an instance means to a planner. Undefined: it does not serve and will not. It is
 * in the warm pool, on standby or detached, or its operator keeps it after an abandoned termination.
 */
export function stateOf({ LifecycleState }: Instance): ObservedInstance['state'] | undefined {
  const state: string = LifecycleState ?? '';
  if (state === 'InService') return 'ready';
  if (state.startsWith('Pending')) return 'starting';
  // It counts toward the desired capacity and serves again with its new root volume.
  if (state.startsWith('ReplacingRootVolume') || state === 'RootVolumeReplaced') return 'starting';
  if (state.startsWith('Terminating') && state !== 'Terminating:Retained') return 'draining';
  return undefined;
}

/** Returns an option as its group describes it. The group does not say whether its newest launch failed. */
export function observedOption(id: string, group: AutoScalingGroup, memory: InstanceMemory): ObservedOption {
  const instances = (group.Instances ?? []).flatMap((instance) => observedInstance(instance, memory));
  const count = (state: ObservedInstance['state']): number => instances.filter((each) => each.state === state).length;
  const [ready, starting, draining] = [count('ready'), count('starting'), count('draining')];
  const { DesiredCapacity: desired = 0, MinSize: min = 0, MaxSize: max = 0, CapacityRebalance: rebalances } = group;
  return {
    id,
    ready,
    starting,
    draining,
    desired,
    min,
    max,
    isRebalancing: rebalances === true && ready + starting > desired,
    instances,
  };
}

function observedInstance(instance: Instance, memory: InstanceMemory): readonly ObservedInstance[] {
  const { InstanceId: id, HealthStatus: health } = instance;
  const state = stateOf(instance);
  if (id === undefined || state === undefined) return [];
  const load = memory.loadOf(id);
  return [
    {
      id,
      state,
      readySinceMs: memory.readySinceMs(id),
      activeBlocks: load?.activeBlocks,
      generation: load?.generation,
      isUnhealthy: health !== undefined && health.toLowerCase() !== 'healthy',
    },
  ];
}

/** Returns the instances in service that a lower desired capacity could end. */
export function unprotectedOf({ Instances: instances = [] }: AutoScalingGroup): readonly string[] {
  return instances.flatMap(({ InstanceId: id, LifecycleState: state, ProtectedFromScaleIn: isProtected }) =>
    id !== undefined && state === 'InService' && isProtected !== true ? [id] : [],
  );
}

/** Whether a group has fewer instances than it wants: a launch is missing, or has failed. */
export function missesCapacity({ ready, starting, desired }: Pick<ObservedOption, 'ready' | 'starting' | 'desired'>) {
  return ready + starting < desired;
}

/**
 * Whether a refresh of the group may be in progress. In a group at rest, as many instances as desired are in service,
 * and all have the group's launch template.
 */
export function mayBeRefreshing(group: AutoScalingGroup): boolean {
  const {
    Instances: instances = [],
    DesiredCapacity: desired = 0,
    LaunchTemplate: plain,
    MixedInstancesPolicy,
  } = group;
  const version = (plain ?? MixedInstancesPolicy?.LaunchTemplate?.LaunchTemplateSpecification)?.Version;
  const isPinned = version !== undefined && !version.startsWith('$');
  const serving = instances.filter(({ LifecycleState: state }) => state === 'InService');
  if (serving.length !== desired) return true;
  return isPinned && serving.some(({ LaunchTemplate: own }) => own?.Version !== undefined && own.Version !== version);
}
