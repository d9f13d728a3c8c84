import { p90Of } from '../decide/worker-counts.ts';
import type { Replica } from './replicas.ts';

/** Starts whose times are kept. */
const SAMPLES_MAX = 50;

/** Past of a replica, as far as this process knows it. */
interface Past {
  readonly hasServed: boolean;
  /** Whether it has started since this process saw it first, and for the first time. */
  readonly isFirstStart: boolean;
}

/**
 * Remembers which replicas have served, and measures how long they take to start. The first start of a replica counts,
 * if this process has seen it before. What is gone is forgotten.
 */
export class PodStarts {
  /** By the uid of the replica. */
  #pasts: ReadonlyMap<string, Past> = new Map();
  readonly #startsMs: number[] = [];
  readonly #nodesMs: number[] = [];

  /** Takes all replicas of a fleet as they are now. */
  observe(replicas: readonly Replica[]): void {
    const pasts = new Map<string, Past>();
    for (const replica of replicas) if (replica.isActive) pasts.set(replica.uid, this.#next(replica));
    this.#pasts = pasts;
  }

  /** Returns whether a replica was ready when it was observed, or before. */
  hasServed(replica: Replica): boolean {
    return this.#pasts.get(replica.uid)?.hasServed === true;
  }

  /** Returns the seconds from a new pod to a worker that serves, the 90th percentile; undefined before the first. */
  get startSeconds(): number | undefined {
    return secondsOf(this.#startsMs);
  }

  /** Returns the seconds from a new pod to its node, the 90th percentile; undefined before the first. */
  get capacitySeconds(): number | undefined {
    return secondsOf(this.#nodesMs);
  }

  #next(replica: Replica): Past {
    const { pods, isReady, wasReady, createdMs, readySinceMs, scheduledMs } = replica;
    const before = this.#pasts.get(replica.uid);
    if (!isReady && !wasReady) {
      return before ?? { hasServed: false, isFirstStart: pods.every(({ hasRestarted }) => !hasRestarted) };
    }
    if (before?.isFirstStart === true && readySinceMs !== undefined) {
      keep(this.#startsMs, readySinceMs - createdMs);
      if (scheduledMs !== undefined) keep(this.#nodesMs, scheduledMs - createdMs);
    }
    return { hasServed: true, isFirstStart: false };
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
