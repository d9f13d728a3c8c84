import type {
  Applied,
  Connector,
  Observed,
  ObservedInstance,
  ObservedOption,
  Step,
} from '../../../shared/planner/live/connector.ts';
import type { FleetSpec, OptionSpec } from '../../../shared/planner/options/fleet-spec.ts';
import { planFleet } from '../../../shared/planner/options/plan.ts';
import { POOLS, type Pool } from '../../../shared/planner/types.ts';

interface Instance {
  readonly id: string;
  state: ObservedInstance['state'];
  readySinceMs: number | undefined;
  activeBlocks: number;
}

/** One Auto Scaling group as far as a planner sees it: protected instances, launches that may fail. */
export class GroupModel {
  readonly spec: OptionSpec;
  readonly pool: Pool;
  instances: Instance[] = [];
  desired = 0;
  hasCapacity = true;
  isRebalancing = false;
  failing: ObservedOption['failing'];

  constructor(pool: Pool, spec: OptionSpec) {
    this.pool = pool;
    this.spec = spec;
  }

  get present(): readonly Instance[] {
    return this.instances.filter(({ state }) => state !== 'draining');
  }

  /** Launches that are asked for and not there. */
  get onOrder(): number {
    return Math.max(0, this.desired - this.present.length);
  }
}

/** Fleets of EC2 in memory, in virtual time. */
export class CloudModel {
  readonly groups: readonly GroupModel[];
  readonly fleet: FleetSpec;
  nowMs = 1_800_000_000_000;
  refreshing = false;
  #serial = 0;

  constructor(fleet: FleetSpec) {
    this.fleet = fleet;
    this.groups = POOLS.flatMap((pool) =>
      (fleet.pools[pool]?.options ?? []).map((option) => new GroupModel(pool, option)),
    );
  }

  groupOf(pool: Pool, id: string): GroupModel {
    return this.groups.find((group) => group.pool === pool && group.spec.id === id)!;
  }

  /** Lets every group do what it does by itself: launch what is missing, give up launches that are too many. */
  work(): void {
    for (const group of this.groups) {
      while (group.onOrder > 0 && group.hasCapacity) {
        group.failing = undefined;
        group.instances.push(this.#newInstance());
      }
      if (group.onOrder > 0) {
        const { types, zone } = group.spec;
        group.failing = { code: 'InsufficientInstanceCapacity', types, zone, atMs: this.nowMs };
      }
      // Instances in service are protected.
      while (!group.isRebalancing && group.present.length > group.desired) {
        const at = group.instances.findLastIndex(({ state }) => state === 'starting');
        if (at < 0) break;
        group.instances.splice(at, 1);
      }
    }
  }

  /** Instances that start serve now. */
  serve(): void {
    for (const { instances } of this.groups) {
      for (const each of instances) {
        if (each.state !== 'starting') continue;
        each.state = 'ready';
        each.readySinceMs = this.nowMs;
      }
    }
  }

  /** Instances that drain are gone. */
  drained(): void {
    for (const group of this.groups) group.instances = group.instances.filter(({ state }) => state !== 'draining');
  }

  /** One instance is lost, as with an interruption: the group replaces it. */
  lose(at: number): void {
    const all = this.groups.flatMap((group) => group.present.map((instance) => ({ group, instance })));
    const lost = all[at % Math.max(1, all.length)];
    if (lost === undefined) return;
    lost.group.instances = lost.group.instances.filter((each) => each !== lost.instance);
  }

  /** A replacement comes before the instance that it replaces goes. */
  beginRebalance(group: GroupModel): void {
    if (group.isRebalancing || group.present.length === 0) return;
    group.isRebalancing = true;
    group.instances.push(this.#newInstance());
  }

  endRebalance(group: GroupModel): void {
    if (!group.isRebalancing) return;
    group.isRebalancing = false;
    const [old] = group.present;
    if (old !== undefined && group.present.length > group.desired) old.state = 'draining';
  }

  observe(): Observed {
    return {
      pools: Object.fromEntries(
        POOLS.flatMap((pool) => {
          const spec = this.fleet.pools[pool];
          if (spec === undefined) return [];
          const options = this.groups.filter((group) => group.pool === pool).map(observedOption);
          const sum = (read: (option: ObservedOption) => number) =>
            options.reduce((total, each) => total + read(each), 0);
          const counts = {
            ready: sum(({ ready }) => ready),
            starting: sum(({ starting }) => starting),
            draining: sum(({ draining }) => draining),
            desired: sum(({ desired }) => desired),
          };
          return [[pool, { ...counts, refreshing: this.refreshing, options }]];
        }),
      ),
    };
  }

  /** One step, as the environment takes it. Throws for what it refuses. */
  take(step: Step): void {
    if (step.kind === 'targets') throw new Error('a group has no targets');
    const group = this.groupOf(step.pool, step.option);
    const { min, max } = group.spec;
    if (step.kind === 'desire') {
      if (step.desired < min || step.desired > max) throw new Error(`${step.desired} is outside ${min} to ${max}`);
      group.desired = step.desired;
      return;
    }
    const instance = group.instances.find(({ id }) => id === step.instanceId);
    if (instance === undefined || instance.state === 'draining') return;
    if (group.desired <= min) throw new Error('a group does not go below its least number');
    instance.state = 'draining';
    group.desired--;
  }

  /** A connector of these fleets. @param onStep called before each step; what it throws ends the steps */
  connector(onStep: (step: Step) => void = () => {}): Connector {
    return {
      name: 'model',
      observe: async () => this.observe(),
      plan: (...args) => planFleet(this.fleet, ...args),
      apply: async (steps): Promise<Applied> => {
        for (const step of steps) {
          onStep(step);
          this.take(step);
        }
        return 'accepted';
      },
      close: async () => {},
    };
  }

  /** Workers of a pool that serve, start, or are on order. */
  wanted(pool: Pool): number {
    return this.groups
      .filter((group) => group.pool === pool)
      .reduce((total, { desired, spec }) => total + desired * spec.replicasPerInstance, 0);
  }

  /** GPUs of all instances that are there or on order. */
  get gpus(): number {
    return this.groups.reduce((total, { instances, onOrder, spec }) => {
      return total + (instances.length + onOrder) * spec.gpusPerInstance;
    }, 0);
  }

  #newInstance(): Instance {
    const serial = ++this.#serial;
    return { id: `i-${serial}`, state: 'starting', readySinceMs: undefined, activeBlocks: (serial * 7) % 5 };
  }
}

/** The model tells a failure only while launches wait, as a connector does that reads no more than it must. */
function observedOption({ spec, instances, desired, onOrder, failing, isRebalancing }: GroupModel): ObservedOption {
  const count = (state: ObservedInstance['state']): number => instances.filter((each) => each.state === state).length;
  return {
    id: spec.id,
    ready: count('ready'),
    starting: count('starting'),
    draining: count('draining'),
    desired,
    min: spec.min,
    max: spec.max,
    failing: onOrder > 0 ? failing : undefined,
    isRebalancing,
    instances: instances.map((each) => ({ ...each })),
  };
}
