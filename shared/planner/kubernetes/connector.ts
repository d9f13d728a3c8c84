import type { Clock } from '../../clock/index.ts';
import { KubeFailure } from '../../discovery/index.ts';
import type { InstanceLoads } from '../ec2/instance-loads.ts';
import { planFleet } from '../ec2/plan.ts';
import type {
  Applied,
  Connector,
  LaunchFailure,
  Observed,
  ObservedOption,
  ObservedPool,
  Step,
} from '../live/connector.ts';
import type { Victim } from '../store/types.ts';
import type { Pool } from '../types.ts';
import { type ClusterFleet, type PodOption, START_FACTOR } from './cluster-fleet.ts';
import { endsOf } from './ends.ts';
import { PodStarts } from './pod-starts.ts';
import { LOWEST_COST } from './pods.ts';
import { isRollingOut, type Replica, replicasOf, seenReplicas } from './replicas.ts';
import type { Scale, WorkloadCalls } from './workload-calls.ts';

export interface KubernetesConnectorOptions {
  readonly fleet: ClusterFleet;
  readonly calls: Pick<WorkloadCalls, 'scaleOf' | 'podsOf' | 'setScale' | 'setDeletionCost' | 'where' | 'close'>;
  readonly clock: Clock;
  /** Loads of pods by their names; without them, victims are chosen by health, option and name. */
  readonly loads?: Pick<InstanceLoads, 'of' | 'close'> | undefined;
}

/** A workload as it was observed last. */
interface Seen {
  readonly option: PodOption;
  readonly scale: Scale;
  readonly replicas: readonly Replica[];
}

/** Steps of one option. */
interface OptionSteps {
  readonly victims: Set<string>;
  desired: number | undefined;
}

/** Codes of the refusals that a planner may meet, by their status. */
const CODES: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  405: 'MethodNotAllowed',
  422: 'Invalid',
};

/**
 * Scales the workloads of one fleet in a Kubernetes cluster: each option of a pool is a Deployment or a
 * LeaderWorkerSet. A number is only set on the version of the workload that was observed, so a plan that is out of date
 * changes nothing.
 */
export class KubernetesConnector implements Connector {
  readonly name: string;
  readonly #options: KubernetesConnectorOptions;
  readonly #starts = new PodStarts();
  /** Newest failure of each option, by pool and option. */
  readonly #failures = new Map<string, LaunchFailure>();
  /** By pool and option. */
  #seen: ReadonlyMap<string, Seen> = new Map();

  constructor(options: KubernetesConnectorOptions) {
    this.#options = options;
    this.name = options.fleet.cluster.kind;
  }

  plan: Connector['plan'] = (decision, observed, memory, context) => {
    const victims = withoutReplaced(context.victims, observed);
    return planFleet(this.#options.fleet, decision, observed, memory, { ...context, victims });
  };

  /**
   * Reads all workloads of the fleet, with their pods. A workload that does not exist is an option without room: a
   * deployment may add it to a pool that serves already.
   *
   * @throws KubeFailure also if a pool has no workload at all
   */
  async observe(signal: AbortSignal): Promise<Observed> {
    const { fleet } = this.#options;
    const seen = new Map<string, Seen>();
    for (const [pool, workloads] of Object.entries(fleet.workloads)) {
      for (const [id, option] of workloads) {
        const found = await this.#look(option, signal);
        if (found !== undefined) seen.set(keyOf(pool as Pool, id), found);
      }
    }
    this.#seen = seen;
    this.#starts.observe([...seen.values()].flatMap(({ replicas }) => replicas));
    const pools: { -readonly [Name in Pool]?: ObservedPool } = {};
    for (const pool of Object.keys(fleet.workloads) as Pool[]) pools[pool] = this.#observePool(pool, seen);
    const startSecs = Math.max(...Object.values(fleet.pools).map((pool) => pool?.startSecs ?? 0));
    const { startSeconds = startSecs, capacitySeconds } = this.#starts;
    return { pools, startSeconds, capacitySeconds };
  }

  async apply(steps: readonly Step[], signal: AbortSignal): Promise<Applied> {
    signal.throwIfAborted();
    let outcome: Applied = 'accepted';
    // Those that lower a number come first: one option may give GPUs to another.
    const raises = ([key, { desired = 0 }]: readonly [string, OptionSteps]): number =>
      Number(desired > (this.#seen.get(key)?.scale.replicas ?? 0));
    const inOrder = [...byOption(steps)].toSorted((one, other) => raises(one) - raises(other));
    for (const [key, { victims, desired }] of inOrder) {
      const result = await this.#applyTo(key, victims, desired, signal);
      if (result !== 'accepted' && typeof outcome !== 'object') outcome = result;
    }
    return outcome;
  }

  async close(): Promise<void> {
    this.#options.loads?.close();
    this.#options.calls.close();
  }

  async #look(option: PodOption, signal: AbortSignal): Promise<Seen | undefined> {
    const { calls } = this.#options;
    // The version is that of before the pods were read, so that a number is never set on newer facts than were seen.
    const scale = await this.#ask(option, () => calls.scaleOf(option.workload, signal));
    if (scale === undefined) return undefined;
    const pods = await this.#ask(option, () => calls.podsOf(scale.selector, signal));
    return { option, scale, replicas: replicasOf(option.workload.kind, pods) };
  }

  #observePool(pool: Pool, seen: ReadonlyMap<string, Seen>): ObservedPool {
    const spec = this.#options.fleet.pools[pool];
    const given = spec?.options ?? [];
    if (given.every(({ id }) => !seen.has(keyOf(pool, id)))) throw this.#withoutWorkloads(given);
    const total = { ready: 0, starting: 0, draining: 0, desired: 0, refreshing: false };
    const options = given.map(({ id, min, max, gpusPerInstance: gpus }): ObservedOption => {
      const found = seen.get(keyOf(pool, id));
      const unit = { replicas: 1, instances: 1, gpus };
      const none = { ready: 0, starting: 0, draining: 0, desired: 0, instances: [] };
      if (found === undefined) return { id, ...none, min: 0, max: 0, isAbsent: true, unit };
      const isRefreshing = isRollingOut(found.replicas);
      const option = { id, ...this.#observeOption(keyOf(pool, id), found, isRefreshing), min, max, unit };
      total.refreshing ||= isRefreshing;
      for (const count of ['ready', 'starting', 'draining', 'desired'] as const) total[count] += option[count];
      return option;
    });
    return { ...total, options };
  }

  #observeOption(key: string, { option, scale, replicas }: Seen, isRefreshing: boolean) {
    const { clock, loads } = this.#options;
    const { instances, failing } = seenReplicas(replicas, {
      kind: option.workload.kind,
      desired: scale.replicas,
      nowMs: clock.wallMs(),
      unschedulableMs: option.unschedulableMs,
      startMsMax: Math.max(option.startMsMax, 1000 * START_FACTOR * (this.#starts.startSeconds ?? 0)),
      optionCount: option.optionCount,
      isRefreshing,
      blocksOf: (id) => loads?.of(id)?.activeBlocks,
      hasServed: (replica) => this.#hasServed(replica),
      mayStream: (replica) => this.#mayStream(replica, option),
    });
    if (failing !== undefined) this.#failures.set(key, failing);
    const count = (state: string): number => instances.filter((each) => each.state === state).length;
    const counts = { ready: count('ready'), starting: count('starting'), draining: count('draining') };
    return { ...counts, desired: scale.replicas, failing, lastFailure: this.#failures.get(key), instances };
  }

  #hasServed(replica: Replica): boolean {
    return this.#options.loads?.of(replica.id) !== undefined || this.#starts.hasServed(replica);
  }

  /** A worker that was not heard since its pod was ready ends its streams at the end of a drain at the latest. */
  #mayStream(replica: Replica, { drainMs }: PodOption): boolean {
    const { id, isReady, readyChangedMs = 0 } = replica;
    const { loads, clock } = this.#options;
    if (isReady || loads?.of(id) !== undefined) return true;
    return this.#starts.hasServed(replica) && clock.wallMs() - readyChangedMs < drainMs;
  }

  async #applyTo(
    key: string,
    victims: ReadonlySet<string>,
    desired: number | undefined,
    signal: AbortSignal,
  ): Promise<Applied> {
    const seen = this.#seen.get(key);
    if (seen === undefined) return { failed: 'NotFound' };
    const { scale, option } = seen;
    const { calls } = this.#options;
    const { number, marked, unmarked, isSettled } = this.#changeOf(seen, victims, desired);
    try {
      for (const pod of unmarked) await calls.setDeletionCost(pod, undefined, signal);
      for (const pod of marked) await calls.setDeletionCost(pod, LOWEST_COST, signal);
      if (number !== scale.replicas) await calls.setScale(option.workload, scale, number, signal);
    } catch (thrown) {
      signal.throwIfAborted();
      return outcomeOf(thrown);
    }
    return isSettled ? 'accepted' : 'waiting';
  }

  /** Returns the number to set now, and whether that is all that the steps ask for. */
  #changeOf({ option, scale, replicas }: Seen, victims: ReadonlySet<string>, desired: number | undefined) {
    const { kind } = option.workload;
    const streaming = new Set(replicas.filter((each) => this.#mayStream(each, option)).map(({ id }) => id));
    const current = scale.replicas;
    const left = Math.max(0, current - replicas.filter(({ id, isActive }) => isActive && victims.has(id)).length);
    const wanted = desired ?? left;
    // The victims go first: a number that takes them and their replacements together would end none of them. No launch
    // is called off meanwhile, because it is a replacement.
    const isReplacing = left < current && wanted > left;
    const served = (id: string): boolean => isReplacing || streaming.has(id);
    const ends = endsOf(kind, replicas, { current, wanted: isReplacing ? left : wanted, victims, served });
    const isHeld = ends.replicas < current && isRollingOut(replicas);
    const number = isHeld ? current : ends.replicas;
    return {
      // If no victim can end yet, its replacement starts all the same.
      number: isReplacing && number >= current ? Math.max(wanted, current) : number,
      marked: isHeld ? [] : ends.marked,
      unmarked: ends.unmarked,
      isSettled: number === wanted && !isReplacing,
    };
  }

  /** Adds to a failure what was asked for, and which right it needs. */
  async #ask<T>({ workload: { kind, name } }: PodOption, call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (thrown) {
      if (!(thrown instanceof KubeFailure)) throw thrown;
      const { isForbidden, status } = thrown;
      const hint = isForbidden ? '. Give the planner the rights that docs/planner.md lists' : '';
      const what = `${kind}/${name} in ${this.#options.calls.where} cannot be read: ${thrown.message}${hint}`;
      throw new KubeFailure(status, what, thrown);
    }
  }

  #withoutWorkloads(options: readonly { readonly group: string }[]): KubeFailure {
    const { namespace, model } = this.#options.fleet;
    const names = options.map(({ group }) => group).join(', ');
    const what = `the fleet of ${model} in namespace ${namespace} names workloads that do not exist`;
    return new KubeFailure(404, `${what} in ${this.#options.calls.where}: ${names}`);
  }
}

function keyOf(pool: Pool, option: string): string {
  return `${pool}/${option}`;
}

/** Leaves out victims that have ended and whose name a newer replica has: groups of a LeaderWorkerSet are numbered. */
function withoutReplaced(victims: readonly Victim[], { pools = {} }: Observed): readonly Victim[] {
  const instances = Object.values(pools).flatMap(({ options }) => options.flatMap((option) => option.instances));
  const createdMs = new Map(instances.map((each) => [each.id, each.createdMs ?? 0]));
  return victims.filter(({ instanceId, atMs }) => (createdMs.get(instanceId) ?? 0) <= atMs);
}

/** Returns the steps of each option. */
function byOption(steps: readonly Step[]): ReadonlyMap<string, OptionSteps> {
  const options = new Map<string, OptionSteps>();
  for (const step of steps) {
    if (step.kind === 'targets') continue; // for environments that scale by themselves
    const key = keyOf(step.pool, step.option);
    const option = options.get(key) ?? { victims: new Set<string>(), desired: undefined };
    options.set(key, option);
    if (step.kind === 'terminate') option.victims.add(step.instanceId);
    else option.desired = step.desired;
  }
  return options;
}

/**
 * Returns what a failed change means. After a conflict, or if a pod or the workload is gone, the next round reads and
 * plans anew.
 */
function outcomeOf(thrown: unknown): Applied {
  if (!(thrown instanceof KubeFailure) || thrown.mayPass) throw thrown;
  if (thrown.isConflict || thrown.isAbsent) return 'waiting';
  return { failed: CODES[thrown.status] ?? `Status${thrown.status}` };
}
