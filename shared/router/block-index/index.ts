/**
 * @module router/block-index
 * Which blocks each rank holds: fed by events, asked for the longest held prefix of a prompt, bounded in memory.
 */

export { ApproximateIndex, type ApproximateIndexOptions, predictingIndex } from './approximate-index.ts';
export {
  type BlockIndexOptions,
  createBlockIndex,
  type LoadedBlockIndex,
  ReplaceableBlockIndex,
} from './create-block-index.ts';
export { IndexMemory } from './memory.ts';
export { SnapshotError } from './snapshot.ts';
export type { BlockIndex, DumpSlice, HashPair, IndexCounters, IndexStatus, StorageTier, StoredRun } from './types.ts';
