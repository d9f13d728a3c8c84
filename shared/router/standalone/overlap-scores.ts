import type { Overlaps } from '../scheduler/prefix-index.ts';

/** A rank of a pool: its number, and what it is known by. */
export interface ScoredRank {
  readonly rank: number;
  /** Hex. */
  readonly workerId: string;
  readonly dpRank: number;
}

export interface OverlapScoresOptions {
  readonly blockSizeTokens: number;
  /** Complete blocks of the prompt. */
  readonly blocks: number;
  /** A worker id as the wire has it. */
  readonly showId: (workerId: string) => unknown;
}

/** What every rank holds of a prompt, in blocks; ranks that hold nothing are there too. */
export function overlapScores(
  overlaps: Overlaps,
  ranks: readonly ScoredRank[],
  { blockSizeTokens, blocks, showId }: OverlapScoresOptions,
): unknown {
  const workers = ranks.map(({ rank, workerId, dpRank }) => {
    const device = overlaps.device[rank] ?? 0;
    const host = overlaps.host[rank] ?? 0;
    const disk = overlaps.disk[rank] ?? 0;
    return {
      worker_id: showId(workerId),
      dp_rank: dpRank,
      device_blocks: device,
      host_pinned_blocks: device + host,
      disk_blocks: device + host + disk,
      host_pinned_extension_blocks: host,
      disk_extension_blocks: disk,
      shared_beyond_device_blocks: null,
    };
  });
  const sharedCache = { enabled: false, total_hit_blocks: 0, ranges: [], error: null };
  return { block_size: blockSizeTokens, num_blocks: blocks, workers, shared_cache: sharedCache };
}
