import { u64OfHex } from '../../records/index.ts';
import type { Overlaps } from '../scheduler/prefix-index.ts';
import type { RankTable } from '../scheduler/ranks.ts';

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
