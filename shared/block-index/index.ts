/**
 * @module block-index What each worker has cached: `BlockIndex` by what workers say, `ApproximateIndex` by what was
 * decided. A `PrefixIndex` fills `Overlaps` for a prompt; a `RankTable` numbers the ranks that both address.
 */
export { ApproximateIndex, type ApproximateIndexOptions, predictingIndex } from './approximate-index.ts';
export { BlockIndex } from './block-index.ts';
export { IndexMemory } from './memory.ts';
export { copyOverlaps, type FoundOverlaps, Overlaps, type PrefixIndex, restoreOverlaps } from './prefix-index.ts';
export { RankTable } from './rank-table.ts';
export type { LoadedBlockIndex } from './snapshot.ts';
export type { HashPair, IndexStatus, StorageTier, StoredRun } from './types.ts';
