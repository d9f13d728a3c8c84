import type { Clock } from '../../../../shared/clock/index.ts';
import { Capacity } from './capacity.ts';
import {
  type Activity,
  type BusEvent,
  DEFAULT_TIMES,
  type FakeGroup,
  type FakeInstance,
  type GroupSpec,
  type InstanceCallbacks,
  type Times,
} from './types.ts';

export const REGION = 'us-east-1';
export const ACCOUNT = '123456789012';

export interface AccountOptions extends InstanceCallbacks {
  readonly clock: Clock;
  readonly times?: Partial<Times>;
  readonly onEvent?: (event: BusEvent) => void;
  /**
   * Which instances a lower desired capacity takes first. AWS documents no place for launches that still wait, so a
   * test tries each: `in-service-only` takes a launch once it serves. @default pending-first
   */
  readonly scaleIn?: 'pending-first' | 'in-service-first' | 'in-service-only';
}

const ACTIVITIES_MAX = 10_000;

/** State of all groups of one account and region, and the means by which the files beside this one change it. */
export class Account {
  readonly clock: Clock;
  readonly times: Times;
  readonly options: AccountOptions;
  readonly groups = new Map<string, FakeGroup>();
  readonly instances = new Map<string, FakeInstance>();
  readonly activities: Activity[] = [];
  readonly capacity: Capacity;
  readonly lostZones = new Set<string>();
  #serial = 0;
  readonly #reconcile: (group: FakeGroup) => void;

  constructor(options: AccountOptions, reconcile: (account: Account, group: FakeGroup) => void) {
    this.options = options;
    this.clock = options.clock;
    this.times = { ...DEFAULT_TIMES, ...options.times };
    this.capacity = new Capacity(() => this.clock.nowMs());
    this.#reconcile = (group) => reconcile(this, group);
  }

  /** Returns an identifier in the form of a UUID, the same in each run. */
  uuid(): string {
    const serial = (++this.#serial).toString(16).padStart(12, '0');
    return `5ca1ab1e-0000-4000-8000-${serial}`;
  }

  instanceId(): string {
    return `i-${(++this.#serial).toString(16).padStart(17, '0')}`;
  }

  addGroup(spec: GroupSpec): FakeGroup {
    const { name, min = 0, max, desired = min, hooks = [], types, market = 'on-demand' } = spec;
    const group: FakeGroup = {
      spec,
      name,
      arn: `arn:aws:autoscaling:${REGION}:${ACCOUNT}:autoScalingGroup:${this.uuid()}:autoScalingGroupName/${name}`,
      isMixed: spec.isMixed ?? (types.length > 1 || market === 'spot'),
      createdAtMs: this.clock.wallMs(),
      min,
      max,
      desired,
      hooks,
      warmPool: spec.warmPool,
      template: { version: '1', imageId: undefined },
      latest: '1',
      suspended: new Set(spec.suspended),
      refreshes: [],
      surplus: 0,
      retryAtMs: 0,
      protectedAt: undefined,
      isPoked: false,
      members: new Set(),
    };
    this.groups.set(name, group);
    this.poke(group);
    return group;
  }

  /** Makes the group look at itself after `actMs`. */
  poke(group: FakeGroup): void {
    if (group.isPoked) return;
    group.isPoked = true;
    this.clock.after(this.times.actMs, () => {
      group.isPoked = false;
      if (this.groups.get(group.name) === group) this.#reconcile(group);
    });
  }

  /** As `poke`, and forgets that launches have failed. */
  pokeNow(group: FakeGroup): void {
    group.retryAtMs = 0;
    this.poke(group);
  }

  of(group: FakeGroup): FakeInstance[] {
    return [...group.members];
  }

  add(instance: FakeInstance): void {
    this.instances.set(instance.id, instance);
    instance.group.members.add(instance);
  }

  remove(instance: FakeInstance): void {
    this.instances.delete(instance.id);
    instance.group.members.delete(instance);
  }

  setState(instance: FakeInstance, state: string, target = instance.target): void {
    instance.state = state;
    instance.target = target;
    instance.step++;
    instance.history.push(state);
    this.options.onState?.(instance);
  }

  /** Runs `then` after `ms` unless the instance has changed its state meanwhile. */
  later(instance: FakeInstance, ms: number, then: () => void): void {
    const { step } = instance;
    this.clock.after(ms, () => {
      if (instance.step === step) then();
    });
  }

  note(activity: Activity): Activity {
    this.activities.push(activity);
    if (this.activities.length > ACTIVITIES_MAX) this.activities.shift();
    return activity;
  }
}
