/**
 * @module router/block-index
 * Which blocks each rank holds: fed by events, asked for the longest held prefix of a prompt, bounded in memory.
 */
import type { RankTable } from '../rank-table.ts';
import { NaiveBlockIndex } from './naive.ts';
import type { BlockIndex, HashPair } from './types.ts';

export type { BlockIndex, HashPair, IndexCounters, IndexStatus, StorageTier, StoredRun } from './types.ts';

export interface BlockIndexOptions {
  readonly ranks: RankTable;
  /** Most distinct blocks; the blocks stored longest ago give way. At most 33,554,430. @default 16,777,216 */
  readonly blocksMax?: number;
  /** Told the number of blocks that gave way. */
  readonly onEvicted?: (blocks: number) => void;
}

export function createBlockIndex(options: BlockIndexOptions): BlockIndex {
  return new NaiveBlockIndex(options.ranks);
}

/** A snapshot that cannot be loaded; `message` says what is wrong with it. */
export class SnapshotError extends Error {
  override readonly name = 'SnapshotError';
}

/**
 * The index that a snapshot was taken of, and the cursors kept beside it. Its ranks get numbers of `options.ranks`, new
 * ones where the table does not know the pair.
 * @throws SnapshotError when the snapshot is cut off, damaged, or of a newer version
 */
export function loadBlockIndex(
  snapshot: Uint8Array,
  options: BlockIndexOptions,
): { readonly index: BlockIndex; readonly cursors: Uint8Array } {
  interface Stored {
    cursors: number[];
    ranks: {
      workerId: string;
      dpRank: number;
      runs: { tier: 'device'; parent?: HashPair; blockHashes: number[]; tokensHashes: number[] }[];
    }[];
  }
  let stored: Stored;
  try {
    stored = JSON.parse(new TextDecoder().decode(snapshot));
  } catch (cause) {
    throw new SnapshotError('the snapshot is damaged', { cause });
  }
  const index = createBlockIndex(options);
  for (const { workerId, dpRank, runs } of stored.ranks) {
    const rank = options.ranks.intern(workerId, dpRank);
    for (const { tier, parent, blockHashes, tokensHashes } of runs) {
      index.stored(rank, tier, parent, Uint32Array.from(blockHashes), Uint32Array.from(tokensHashes));
    }
  }
  return { index, cursors: Uint8Array.from(stored.cursors) };
}
