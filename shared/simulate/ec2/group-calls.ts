import type { Activity, AutoScalingGroup } from '@aws-sdk/client-auto-scaling';
import { AutoScalingError, type GroupCalls } from '../../planner/index.ts';
import type { SimulatedGroup } from './group.ts';

/** Answers the calls of a connector from simulated groups, as Auto Scaling would. */
export class SimulatedCalls implements GroupCalls {
  /** Calls so far. */
  count = 0;
  readonly #groups: ReadonlyMap<string, SimulatedGroup>;

  constructor(groups: readonly SimulatedGroup[]) {
    this.#groups = new Map(groups.map((group) => [group.spec.group, group]));
  }

  async groups(names: readonly string[]): Promise<ReadonlyMap<string, AutoScalingGroup>> {
    this.count++;
    return new Map(
      names.flatMap((name) => this.#groups.get(name) ?? []).map((group) => [group.spec.group, told(group)]),
    );
  }

  async activities(name: string): Promise<readonly Activity[]> {
    this.count++;
    return [...(this.#groups.get(name)?.activities ?? [])];
  }

  /** Returns undefined: no command refreshes a simulated group. */
  async newestRefresh(): Promise<undefined> {
    this.count++;
    return undefined;
  }

  async setDesired(name: string, desired: number): Promise<void> {
    this.count++;
    const group = this.#groups.get(name);
    if (group === undefined) return;
    checkBounds(group, desired);
    group.setDesired(desired);
  }

  async terminate(instanceId: string): Promise<void> {
    this.count++;
    for (const group of this.#groups.values()) {
      const instance = group.find(instanceId);
      if (!instance?.isCounted) continue;
      checkBounds(group, group.desired - 1);
      group.terminate(instance);
    }
  }

  /** Does nothing: instances that serve are protected from their first moment. */
  async protect(): Promise<void> {
    this.count++;
  }

  async abandonLaunch(name: string, _hook: string, instanceId: string): Promise<void> {
    this.count++;
    const group = this.#groups.get(name);
    const instance = group?.find(instanceId);
    if (instance?.state === 'Pending:Wait') group?.abandon(instance);
  }

  async close(): Promise<void> {}
}

/** @throws AutoScalingError as Auto Scaling refuses a desired capacity outside the bounds of its group */
function checkBounds({ spec: { min, max, group } }: SimulatedGroup, desired: number): void {
  if (desired >= min && desired <= max) return;
  const message = `desired capacity ${desired} of ${group} is not from ${min} to ${max}`;
  throw new AutoScalingError('refused', 'Validation', message);
}

function told(group: SimulatedGroup): AutoScalingGroup {
  const { spec, conditions, desired, instances } = group;
  return {
    AutoScalingGroupName: spec.group,
    MinSize: spec.min,
    MaxSize: spec.max,
    DesiredCapacity: desired,
    DefaultCooldown: 0,
    HealthCheckType: 'EC2',
    CreatedTime: undefined,
    CapacityRebalance: spec.market === 'spot',
    WarmPoolConfiguration: spec.warmPool && { MinSize: spec.warmPool.min },
    AvailabilityZones: [...conditions.zones],
    Instances: Array.from(instances, ({ described }) => described),
  };
}
