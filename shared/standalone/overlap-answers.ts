import { u64OfHex } from '../records/index.ts';
import type { Overlaps, RankTable } from '../router/scheduler/index.ts';

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

/** What one worker holds of a prompt, in tokens; each tier includes the faster ones. */
export interface WorkerOverlap {
  /** In any tier, on the rank that holds the most. */
  longest_matched: number;
  gpu: number;
  /** Device tokens by rank. */
  readonly dp: Record<string, number>;
  cpu: number;
  disk: number;
}

/** Overlaps by worker id, decimal. Workers that hold nothing are absent. */
export function overlapsByWorker(
  overlaps: Overlaps,
  ranks: RankTable,
  blockSizeTokens: number,
): Readonly<Record<string, WorkerOverlap>> {
  const found: Record<string, WorkerOverlap> = {};
  for (const rank of overlaps.ranks.subarray(0, overlaps.count)) {
    const workerId = ranks.workerIdOf(rank);
    if (workerId === undefined) continue;
    const name = u64OfHex(workerId).toString();
    found[name] = merge(found[name], overlaps, rank, `${ranks.dpRankOf(rank)}`, blockSizeTokens);
  }
  return found;
}

function merge(
  worker: WorkerOverlap | undefined,
  overlaps: Overlaps,
  rank: number,
  dpRank: string,
  blockSizeTokens: number,
): WorkerOverlap {
  const into = worker ?? { longest_matched: 0, gpu: 0, dp: {}, cpu: 0, disk: 0 };
  const device = overlaps.device[rank]!;
  const host = device + overlaps.host[rank]!;
  const disk = host + overlaps.disk[rank]!;
  if (device > 0) into.dp[dpRank] = device * blockSizeTokens;
  into.gpu = Math.max(into.gpu, device * blockSizeTokens);
  into.cpu = Math.max(into.cpu, host * blockSizeTokens);
  into.disk = Math.max(into.disk, disk * blockSizeTokens);
  into.longest_matched = into.disk;
  return into;
}
