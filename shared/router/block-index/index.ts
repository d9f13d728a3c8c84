/**
 * @module router/block-index
 * Which blocks each rank holds: fed by events, asked for the longest held prefix of a prompt, bounded in memory.
 */

export { ApproximateIndex, type ApproximateIndexOptions, predictingIndex } from './approximate-index.ts';
export { BlockIndex, type BlockIndexOptions } from './block-index.ts';
export { IndexMemory } from './memory.ts';
export type { LoadedBlockIndex } from './snapshot.ts';
export type { DumpSlice, HashPair, IndexStatus, StorageTier, StoredRun } from './types.ts';
