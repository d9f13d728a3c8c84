import { p90Of } from '../decide/worker-counts.ts';
import type { Replica } from './replicas.ts';

/** Starts whose times are kept. */
const SAMPLES_MAX = 50;

/** Measures how long replicas take to start. Only those count that this process has seen before they served. */
export class PodStarts {
  #starting = new Set<string>();
  readonly #startsMs: number[] = [];
  readonly #nodesMs: number[] = [];

  /** Takes all replicas of a fleet as they are now. */
  observe(replicas: readonly Replica[]): void {
    const starting = new Set<string>();
    for (const { pods, createdMs, readySinceMs, scheduledMs, isActive } of replicas) {
      const uid = pods[0]?.uid ?? '';
      if (!isActive) continue;
      if (readySinceMs === undefined) starting.add(uid);
      else if (this.#starting.has(uid)) {
        keep(this.#startsMs, readySinceMs - createdMs);
        if (scheduledMs !== undefined) keep(this.#nodesMs, scheduledMs - createdMs);
      }
    }
    this.#starting = starting;
  }

  /** Returns the seconds from a new pod to a worker that serves, the 90th percentile; undefined before the first. */
  get startSeconds(): number | undefined {
    return secondsOf(this.#startsMs);
  }

  /** Returns the seconds from a new pod to its node, the 90th percentile; undefined before the first. */
  get capacitySeconds(): number | undefined {
    return secondsOf(this.#nodesMs);
  }
}

function secondsOf(samplesMs: readonly number[]): number | undefined {
  const ms = p90Of(samplesMs);
  return ms === undefined ? undefined : ms / 1000;
}

function keep(samples: number[], ms: number): void {
  samples.push(Math.max(0, ms));
  if (samples.length > SAMPLES_MAX) samples.shift();
}
