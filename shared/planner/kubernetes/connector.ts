import type { Clock } from '../../clock/index.ts';
import { KubeFailure } from '../../discovery/index.ts';
import type { Applied, Connector, LaunchFailure, Observed, ObservedPool, Step } from '../live/connector.ts';
import type { InstanceLoads } from '../options/instance-loads.ts';
import { planFleet } from '../options/plan.ts';
import type { Pool } from '../types.ts';
import { byOption, changeOf, type OptionSteps, outcomeOf } from './change.ts';
import type { ClusterFleet, PodOption } from './cluster-fleet.ts';
import { observePool, type PodFacts } from './observe-pool.ts';
import { PodStarts } from './pod-starts.ts';
import { LOWEST_COST } from './pods.ts';
import { keyOf, type ReadCalls, readAgain, readWorkloads, type SeenWorkload } from './read-workloads.ts';
import type { Replica } from './replicas.ts';
import type { WorkloadCalls } from './workload-calls.ts';

export interface KubernetesConnectorOptions {
  readonly fleet: ClusterFleet;
  readonly calls: ReadCalls & Pick<WorkloadCalls, 'setScale' | 'setDeletionCost' | 'close'>;
  readonly clock: Clock;
  /** Loads of pods by their names; without them, victims are chosen by health, option and name. */
  readonly loads?: Pick<InstanceLoads, 'of' | 'close'> | undefined;
}

/**
 * Milliseconds after an observation in which a plan from it may be carried out on a newer version: half of the time for
 * which a planner has the right to act. Within it, no other planner has acted.
 */
const AGAIN_MS_MAX = 30_000;

/**
 * Scales the workloads of one fleet in a Kubernetes cluster: each option of a pool is a Deployment or a
 * LeaderWorkerSet. A number is only set on the version of the workload that was read, so a plan that is out of date
 * changes nothing. The status of a workload changes its version, too, as when a pod of it starts. Then the change is
 * worked out once more on what the workload has become.
 */
export class KubernetesConnector implements Connector {
  readonly name: string;
  readonly #options: KubernetesConnectorOptions;
  readonly #starts = new PodStarts();
  /** Newest failure of each option, by pool and option. */
  readonly #failures = new Map<string, LaunchFailure>();
  /** By pool and option. */
  #seen: ReadonlyMap<string, SeenWorkload> = new Map();
  /** Time before that was read. */
  #seenAtMs = 0;

  constructor(options: KubernetesConnectorOptions) {
    this.#options = options;
    this.name = options.fleet.cluster.kind;
  }

  plan: Connector['plan'] = (decision, observed, memory, context) =>
    planFleet(this.#options.fleet, decision, observed, memory, context);

  /**
   * Reads all workloads of the fleet, with their pods. A workload that does not exist is an option without room: a
   * deployment may add it to a pool that serves already.
   *
   * @throws KubeFailure also if a pool has no workload at all
   */
  async observe(signal: AbortSignal): Promise<Observed> {
    const { fleet, calls } = this.#options;
    this.#seenAtMs = this.#options.clock.nowMs();
    const seen = await readWorkloads(fleet, calls, signal);
    this.#seen = seen;
    this.#starts.observe([...seen.values()].flatMap(({ replicas }) => replicas));
    const pools: { -readonly [Name in Pool]?: ObservedPool } = {};
    for (const pool of Object.keys(fleet.workloads) as Pool[]) pools[pool] = this.#observePool(pool);
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
    for (const [key, option] of inOrder) {
      const result = await this.#applyTo(key, option, signal);
      if (result !== 'accepted' && typeof outcome !== 'object') outcome = result;
    }
    return outcome;
  }

  async close(): Promise<void> {
    this.#options.loads?.close();
    this.#options.calls.close();
  }

  #observePool(pool: Pool): ObservedPool {
    const { fleet, clock, loads } = this.#options;
    const options = fleet.pools[pool]?.options ?? [];
    const seenOf = (option: string): SeenWorkload | undefined => this.#seen.get(keyOf(pool, option));
    if (options.every(({ id }) => seenOf(id) === undefined)) throw this.#withoutWorkloads(options);
    const facts: PodFacts = {
      nowMs: clock.wallMs(),
      startSeconds: this.#starts.startSeconds,
      blocksOf: (id) => loads?.of(id)?.activeBlocks,
      hasServed: (replica) => this.#hasServed(replica),
      mayStream: (replica, option) => this.#mayStream(replica, option),
      lastFailure: (option, failing) => this.#noteFailure(keyOf(pool, option), failing),
    };
    return observePool(options, seenOf, facts);
  }

  #noteFailure(key: string, failing: LaunchFailure | undefined): LaunchFailure | undefined {
    if (failing !== undefined) this.#failures.set(key, failing);
    return this.#failures.get(key);
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

  async #applyTo(key: string, steps: OptionSteps, signal: AbortSignal): Promise<Applied> {
    const seen = this.#seen.get(key);
    if (seen === undefined) return { failed: 'NotFound' };
    const { calls, clock } = this.#options;
    const outcome = await this.#change(seen, steps, signal);
    if (outcome !== 'conflict') return outcome;
    const again = await readAgain(seen, calls, signal);
    if (again === undefined || clock.nowMs() - this.#seenAtMs > AGAIN_MS_MAX) return 'waiting';
    const second = await this.#change(again, steps, signal);
    return second === 'conflict' ? 'waiting' : second;
  }

  async #change(seen: SeenWorkload, steps: OptionSteps, signal: AbortSignal): Promise<Applied | 'conflict'> {
    const { scale, option, replicas } = seen;
    const { calls } = this.#options;
    const streaming = replicas.filter((each) => this.#mayStream(each, option)).map(({ id }) => id);
    const { number, marked, unmarked, isSettled } = changeOf(seen, steps, new Set(streaming));
    try {
      for (const pod of unmarked) await calls.setDeletionCost(pod, undefined, signal);
      for (const pod of marked) await calls.setDeletionCost(pod, LOWEST_COST, signal);
      if (number !== scale.replicas) await calls.setScale(option.workload, scale, number, signal);
    } catch (thrown) {
      signal.throwIfAborted();
      return thrown instanceof KubeFailure && thrown.isConflict ? 'conflict' : outcomeOf(thrown);
    }
    return isSettled ? 'accepted' : 'waiting';
  }

  #withoutWorkloads(options: readonly { readonly group: string }[]): KubeFailure {
    const { namespace, model } = this.#options.fleet;
    const names = options.map(({ group }) => group).join(', ');
    const what = `the fleet of ${model} in namespace ${namespace} names workloads that do not exist`;
    return new KubeFailure(404, `${what} in ${this.#options.calls.where}: ${names}`);
  }
}
