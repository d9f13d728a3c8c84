import type { AutoScalingGroup } from '@aws-sdk/client-auto-scaling';
import type { Clock } from '../../clock/index.ts';
import type {
  Applied,
  Connector,
  LaunchFailure,
  Observed,
  ObservedOption,
  ObservedPool,
  Step,
} from '../live/connector.ts';
import { type FleetSpec, type OptionSpec, type PoolSpec, unitOf } from '../options/fleet-spec.ts';
import type { InstanceLoads } from '../options/instance-loads.ts';
import { planFleet } from '../options/plan.ts';
import type { Pool } from '../types.ts';
import type { AutoScalingCalls } from './auto-scaling-calls.ts';
import { AutoScalingError } from './auto-scaling-error.ts';
import { CalledOffLaunches } from './called-off-launches.ts';
import { newestFailure } from './launch-failures.ts';
import { mayBeRefreshing, missesCapacity, observedOption, unprotectedOf } from './observed-option.ts';
import { StartTimes } from './start-times.ts';

/** Calls to Auto Scaling that a connector needs. */
export type GroupCalls = Pick<
  AutoScalingCalls,
  'groups' | 'activities' | 'newestRefresh' | 'setDesired' | 'terminate' | 'protect' | 'abandonLaunch' | 'close'
>;

export interface Ec2ConnectorOptions {
  readonly fleet: FleetSpec;
  readonly calls: GroupCalls;
  readonly clock: Clock;
  /** Loads of instances; without them, victims are chosen by health, market, option and id. */
  readonly loads?: Pick<InstanceLoads, 'of' | 'close'> | undefined;
}

/** Instances that one call to `apply` ends. The rest are ended by later ones. */
const TERMINATIONS_MAX = 8;
/** Hook of new instances if the fleet names none. */
const LAUNCH_HOOK = 'launch';
/** Statuses of a refresh that still changes instances. */
const REFRESHING = new Set(['Pending', 'InProgress', 'Cancelling', 'RollbackInProgress', 'Baking']);

/** A group that does not exist. */
const ABSENT: AutoScalingGroup = {
  AutoScalingGroupName: undefined,
  MinSize: 0,
  MaxSize: 0,
  DesiredCapacity: 0,
  DefaultCooldown: undefined,
  AvailabilityZones: [],
  HealthCheckType: undefined,
  CreatedTime: undefined,
};

/** Scales the Auto Scaling groups of one fleet on EC2: each option of a pool is one group. */
export class Ec2Connector implements Connector {
  readonly name = 'ec2';
  readonly #options: Ec2ConnectorOptions;
  readonly #times = new StartTimes();
  readonly #refreshing = new Set<string>();
  readonly #calledOff = new CalledOffLaunches();
  /** Instances whose end was asked for since the last observation. */
  readonly #ended = new Set<string>();
  /** Newest launch of each group that failed, by the group's name. */
  readonly #failures = new Map<string, LaunchFailure>();
  /** Groups as they were observed last, by name. */
  #groups: ReadonlyMap<string, AutoScalingGroup> = new Map();

  constructor(options: Ec2ConnectorOptions) {
    this.#options = options;
  }

  plan: Connector['plan'] = (decision, observed, memory, context) =>
    planFleet(this.#options.fleet, decision, observed, memory, context);

  /**
   * Reads all groups of the fleet. The activities of a group are read only while it misses capacity, its refreshes only
   * while it is not at rest.
   *
   * A group that does not exist is an option without room: a deployment may add it to a pool that serves already.
   *
   * @throws AutoScalingError also if a pool has no group at all
   */
  async observe(signal: AbortSignal): Promise<Observed> {
    const { fleet, calls, clock } = this.#options;
    const specs = Object.values(fleet.pools).flatMap((pool) => pool?.options ?? []);
    this.#groups = await calls.groups(
      specs.map(({ group }) => group),
      signal,
    );
    this.#ended.clear();
    this.#times.observe(this.#groups.values(), clock.wallMs());
    const pools: { -readonly [Name in Pool]?: ObservedPool } = {};
    for (const [name, spec] of Object.entries(fleet.pools)) {
      if (spec !== undefined) pools[name as Pool] = await this.#observePool(spec, signal);
    }
    const startSecs = Math.max(...Object.values(fleet.pools).map((pool) => pool?.startSecs ?? 0));
    return { pools, startSeconds: this.#times.p90Seconds ?? startSecs, capacitySeconds: this.#times.capacitySeconds };
  }

  async apply(steps: readonly Step[], signal: AbortSignal): Promise<Applied> {
    const ended = new Set<string>(); // options of which a step failed
    let outcome: Applied = 'accepted';
    let terminations = 0;
    for (const step of steps) {
      signal.throwIfAborted();
      if (step.kind === 'targets') continue; // for environments that scale by themselves
      const option = `${step.pool}/${step.option}`;
      if (ended.has(option)) continue;
      if (step.kind === 'terminate' && terminations++ >= TERMINATIONS_MAX) {
        ended.add(option);
        if (outcome === 'accepted') outcome = 'waiting';
        continue;
      }
      const result = await this.#applyOne(step, signal);
      if (result === 'accepted') continue;
      ended.add(option);
      if (typeof outcome !== 'object') outcome = result;
    }
    return outcome;
  }

  async close(): Promise<void> {
    this.#options.loads?.close();
    await this.#options.calls.close();
  }

  async #observePool(spec: PoolSpec, signal: AbortSignal): Promise<ObservedPool> {
    if (spec.options.every(({ group }) => !this.#groups.has(group))) throw this.#withoutGroups(spec);
    const pool = { ready: 0, starting: 0, draining: 0, desired: 0, refreshing: false };
    const options: ObservedOption[] = [];
    for (const each of spec.options) {
      const group = this.#groups.get(each.group) ?? ABSENT;
      const { replicas, instances } = unitOf(each, spec);
      const unit = { replicas, instances, gpus: each.gpusPerInstance };
      const isAbsent = group === ABSENT;
      const option = { ...(await this.#observeOption(each, group, signal)), unit, ...(isAbsent ? { isAbsent } : {}) };
      const workers = (count: number): number => Math.floor(count / instances) * replicas;
      options.push(option);
      pool.ready += workers(option.ready);
      pool.starting += workers(option.ready + option.starting) - workers(option.ready);
      pool.draining += workers(option.draining);
      pool.desired += workers(option.desired);
      pool.refreshing ||= await this.#isRefreshing(group, each.group, signal);
    }
    return { ...pool, options };
  }

  async #observeOption({ id, group: name }: OptionSpec, group: AutoScalingGroup, signal: AbortSignal) {
    const { calls, loads } = this.#options;
    const memory = {
      readySinceMs: (instanceId: string) => this.#times.readySinceMs(instanceId),
      loadOf: (instanceId: string) => loads?.of(instanceId),
    };
    const option = observedOption(id, group, memory);
    const activities = missesCapacity(option) ? await calls.activities(name, signal) : [];
    const failing = newestFailure(activities, group.AvailabilityZones ?? [], (each) => this.#calledOff.includes(each));
    if (failing !== undefined) this.#failures.set(name, failing);
    return { ...option, failing, lastFailure: this.#failures.get(name) };
  }

  /** A refresh that was seen is watched until it has ended: between two replacements its group looks at rest. */
  async #isRefreshing(group: AutoScalingGroup, name: string, signal: AbortSignal): Promise<boolean> {
    if (!this.#refreshing.has(name) && !mayBeRefreshing(group)) return false;
    const newest = await this.#options.calls.newestRefresh(name, signal);
    const isOn = REFRESHING.has(newest?.Status ?? '');
    if (isOn) this.#refreshing.add(name);
    else this.#refreshing.delete(name);
    return isOn;
  }

  #withoutGroups({ options }: PoolSpec): AutoScalingError {
    const { namespace, model } = this.#options.fleet;
    const names = options.map(({ group }) => group).join(', ');
    return new AutoScalingError(
      'gone',
      'GroupNotFound',
      `the fleet of ${model} in namespace ${namespace} names Auto Scaling groups that do not exist: ${names}`,
    );
  }

  async #applyOne(step: Exclude<Step, { readonly kind: 'targets' }>, signal: AbortSignal): Promise<Applied> {
    const { calls } = this.#options;
    try {
      if (step.kind === 'desire') {
        await this.#desire(step, signal);
        return 'accepted';
      }
      await calls.terminate(step.instanceId, signal);
      this.#ended.add(step.instanceId);
      return 'accepted';
    } catch (thrown) {
      if (!(thrown instanceof AutoScalingError)) throw thrown;
      const { kind, code } = thrown;
      if (kind === 'gone' && step.kind === 'terminate') return 'accepted';
      if (kind === 'throttled' || kind === 'busy') return 'waiting';
      // Bounds change with a deployment: the next round sees them.
      if (kind === 'refused' && code === 'Validation') return 'waiting';
      if (kind === 'unreachable') throw thrown;
      return { failed: code };
    }
  }

  /**
   * Before the desired capacity falls, instances that serve are protected: only launches may be called off so. Those
   * that wait in their hook are abandoned first, because a group that has a lower number already might end others.
   */
  async #desire(
    { pool, option, desired }: Extract<Step, { readonly kind: 'desire' }>,
    signal: AbortSignal,
  ): Promise<void> {
    const { calls, fleet, clock } = this.#options;
    const spec = fleet.pools[pool];
    const name = spec?.options.find(({ id }) => id === option)?.group;
    if (name === undefined) throw new AutoScalingError('refused', 'UnknownOption', `the fleet has no option ${option}`);
    const group = this.#groups.get(name);
    if (group !== undefined && desired < (group.DesiredCapacity ?? 0)) {
      const unprotected = unprotectedOf(group);
      if (unprotected.length > 0) await calls.protect(name, unprotected, signal);
      const startingSinceMs = (id: string) => this.#times.startingSinceMs(id);
      await this.#calledOff.abandon({ group, desired, ended: this.#ended, startingSinceMs }, (id) =>
        calls.abandonLaunch(name, spec?.launchHook ?? LAUNCH_HOOK, id, signal),
      );
    }
    await calls.setDesired(name, desired, signal);
    const more = desired - (group?.DesiredCapacity ?? desired);
    if (more > 0) this.#times.order(name, more, clock.wallMs());
  }
}
