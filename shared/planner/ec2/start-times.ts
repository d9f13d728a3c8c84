import type { AutoScalingGroup } from '@aws-sdk/client-auto-scaling';
import { p90Of } from '../decide/worker-counts.ts';
import type { ObservedInstance } from '../live/connector.ts';
import { stateOf } from './observed-option.ts';

/** Launches whose times are kept. */
const SAMPLES_MAX = 50;
/** Machines of a group on order whose times are kept. */
const ORDERS_MAX = 1000;

/** Times of an instance in Unix milliseconds; undefined: before the first observation. */
interface Seen {
  readonly state: ObservedInstance['state'];
  readonly startedMs: number | undefined;
  readonly readyMs: number | undefined;
}

/**
 * Measures, from one observation to the next, when instances began to serve and how long that took, because groups do
 * not say it.
 */
export class StartTimes {
  #seen: ReadonlyMap<string, Seen> | undefined;
  readonly #samplesMs: number[] = [];
  readonly #capacityMs: number[] = [];
  /** Times of the orders of machines that do not exist yet, oldest first, by group. */
  readonly #orders = new Map<string, number[]>();

  /** Takes all groups of a fleet as they are now. An instance that is in none of them is forgotten. */
  observe(groups: Iterable<AutoScalingGroup>, nowMs: number): void {
    const seen = new Map<string, Seen>();
    for (const {
      Instances: instances = [],
      AutoScalingGroupName: group = '',
      DesiredCapacity: desired = 0,
    } of groups) {
      let present = 0;
      for (const instance of instances) {
        const { InstanceId: id } = instance;
        const state = stateOf(instance);
        if (id === undefined || state === undefined) continue;
        if (state !== 'draining') present++;
        if (this.#seen !== undefined && !this.#seen.has(id)) this.#arrive(group, nowMs);
        seen.set(id, this.#next(id, state, nowMs));
      }
      if (present >= desired) this.#orders.delete(group);
    }
    this.#seen = seen;
  }

  /** Notes that a group was asked for more instances. */
  order(group: string, count: number, nowMs: number): void {
    const orders = this.#orders.get(group) ?? [];
    for (let left = Math.min(count, ORDERS_MAX - orders.length); left > 0; left--) orders.push(nowMs);
    this.#orders.set(group, orders);
  }

  /** Returns since when an instance serves, in Unix milliseconds; undefined if it is unknown. */
  readySinceMs(instanceId: string): number | undefined {
    return this.#seen?.get(instanceId)?.readyMs;
  }

  /** Returns since when an instance starts, in Unix milliseconds; undefined if it is unknown. */
  startingSinceMs(instanceId: string): number | undefined {
    return this.#seen?.get(instanceId)?.startedMs;
  }

  /** Returns the 90th percentile of the last starts in seconds; undefined before the first. */
  get p90Seconds(): number | undefined {
    const ms = p90Of(this.#samplesMs);
    return ms === undefined ? undefined : ms / 1000;
  }

  /** Returns the seconds from an order to its machine, the 90th percentile of the last; undefined before the first. */
  get capacitySeconds(): number | undefined {
    const ms = p90Of(this.#capacityMs);
    return ms === undefined ? undefined : ms / 1000;
  }

  /** Ends the oldest order of a group, for a machine that was not there before. */
  #arrive(group: string, nowMs: number): void {
    const orderedMs = this.#orders.get(group)?.shift();
    if (orderedMs !== undefined) keep(this.#capacityMs, nowMs - orderedMs);
  }

  #next(id: string, state: Seen['state'], nowMs: number): Seen {
    if (this.#seen === undefined) return { state, startedMs: undefined, readyMs: undefined };
    const before = this.#seen.get(id);
    if (before === undefined) {
      return {
        state,
        startedMs: state === 'starting' ? nowMs : undefined,
        readyMs: state === 'ready' ? nowMs : undefined,
      };
    }
    const { startedMs, readyMs } = before;
    if (state !== 'ready' || before.state !== 'starting') return { state, startedMs, readyMs };
    if (startedMs !== undefined && readyMs === undefined) keep(this.#samplesMs, nowMs - startedMs);
    return { state, startedMs, readyMs: readyMs ?? nowMs };
  }
}

function keep(samples: number[], ms: number): void {
  samples.push(ms);
  if (samples.length > SAMPLES_MAX) samples.shift();
}
