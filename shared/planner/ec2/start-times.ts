import type { AutoScalingGroup } from '@aws-sdk/client-auto-scaling';
import { p90Of } from '../decide/worker-counts.ts';
import type { ObservedInstance } from '../live/connector.ts';
import { stateOf } from './observed-option.ts';

/** Launches whose times are kept. */
const SAMPLES_MAX = 50;

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

  /** Takes all groups of a fleet as they are now. An instance that is in none of them is forgotten. */
  observe(groups: Iterable<AutoScalingGroup>, nowMs: number): void {
    const seen = new Map<string, Seen>();
    for (const { Instances: instances = [] } of groups) {
      for (const instance of instances) {
        const { InstanceId: id } = instance;
        const state = stateOf(instance);
        if (id !== undefined && state !== undefined) seen.set(id, this.#next(id, state, nowMs));
      }
    }
    this.#seen = seen;
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
    if (startedMs !== undefined && readyMs === undefined) this.#sample(nowMs - startedMs);
    return { state, startedMs, readyMs: readyMs ?? nowMs };
  }

  #sample(ms: number): void {
    this.#samplesMs.push(ms);
    if (this.#samplesMs.length > SAMPLES_MAX) this.#samplesMs.shift();
  }
}
