import type { Overlaps } from '../overlaps.ts';
import type { WeighedRequest } from '../scheduler/chooser.ts';
import type { SchedulingOutcome } from '../scheduler/scheduler-types.ts';

/** A request that waits for a worker. */
export interface Waiting {
  readonly weighed: WeighedRequest;
  readonly outcome: SchedulingOutcome;
  readonly arrivedMs: number;
  /** Counts arrivals; of two as urgent, the earlier goes first. */
  readonly order: number;
  /** Larger goes first; see `queueKey`. */
  key: number;
  /** Most of its prompt that any eligible worker had cached on arrival. */
  readonly cachedTokens: number;
  /** The rest of the prompt, at least one; what it costs its class. */
  readonly costTokens: number;
  /** Position of its class. */
  readonly classAt: number;
  /** What the index said when it was last asked. */
  found: FoundOverlaps;
  foundMs: number;
  /** Prompt tokens left to compute at the best worker, by `found`. */
  uncachedTokens: number;
  /** Name of the line that it stands in; the queue's. */
  lane: string;
  /** Position in its heap; -1 once it left. */
  heapAt: number;
}

/** A copy of `Overlaps` that holds only the ranks with something. */
export interface FoundOverlaps {
  readonly ranks: Uint32Array;
  /** Device, host and disk blocks of each of them. */
  readonly blocks: Uint32Array;
}

export function copyOverlaps({ ranks, count, device, host, disk }: Overlaps): FoundOverlaps {
  const blocks = new Uint32Array(3 * count);
  for (let at = 0; at < count; at++) {
    const rank = ranks[at] as number;
    blocks[3 * at] = device[rank] as number;
    blocks[3 * at + 1] = host[rank] as number;
    blocks[3 * at + 2] = disk[rank] as number;
  }
  return { ranks: ranks.slice(0, count), blocks };
}

/** @param capacity as for `Overlaps.reset` */
export function restoreOverlaps({ ranks, blocks }: FoundOverlaps, overlaps: Overlaps, capacity: number): void {
  overlaps.reset(capacity);
  for (let at = 0; at < ranks.length; at++) {
    const rank = ranks[at] as number;
    overlaps.touch(rank);
    overlaps.device[rank] = blocks[3 * at] as number;
    overlaps.host[rank] = blocks[3 * at + 1] as number;
    overlaps.disk[rank] = blocks[3 * at + 2] as number;
  }
}
