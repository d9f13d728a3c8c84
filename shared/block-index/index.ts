/**
 * @module block-index The blocks that each worker has cached: `BlockIndex` follows the reports of workers,
 * `ApproximateIndex` the router's decisions. A `PrefixIndex` fills `Overlaps` for a prompt. A `RankTable` numbers the
 * ranks that both use.
 */
export { ApproximateIndex, type ApproximateIndexOptions, predictingIndex } from './approximate-index.ts';
export { BlockIndex } from './block-index.ts';
export { IndexMemory } from './memory.ts';
export { copyOverlaps, type FoundOverlaps, Overlaps, type PrefixIndex, restoreOverlaps } from './prefix-index.ts';
export { RankTable } from './rank-table.ts';
export type { LoadedBlockIndex } from './snapshot.ts';
export { type CacheSummary, summarizeCache } from './summarize-cache.ts';
export type { HashPair, IndexStatus, StorageTier, StoredRun } from './types.ts';
