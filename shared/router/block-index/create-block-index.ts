import type { RankTable } from '../rank-table.ts';
import { FlatBlockIndex } from './flat-block-index.ts';
import { loadSnapshot } from './load-snapshot.ts';
import type { BlockIndex } from './types.ts';

export interface BlockIndexOptions {
  readonly ranks: RankTable;
  /** Most distinct blocks; the blocks stored longest ago give way. At most 33,554,430. @default 16,777,216 */
  readonly blocksMax?: number;
  /** Told the number of blocks that gave way. */
  readonly onEvicted?: (blocks: number) => void;
}

/** An empty index. */
export function createBlockIndex(options: BlockIndexOptions): BlockIndex {
  return createFlatIndex(options);
}

function createFlatIndex(options: BlockIndexOptions): FlatBlockIndex {
  const { ranks, blocksMax = 1 << 24, onEvicted = () => {} } = options;
  return new FlatBlockIndex({ ranks, blocksMax, onEvicted });
}

/**
 * The index that a snapshot was taken of, and the cursors kept beside it. Its ranks get numbers of `options.ranks`, new
 * ones where the table does not know the pair. A million blocks take about 50 ms.
 * @throws SnapshotError when the snapshot is cut off, damaged, or of another version
 */
export function loadBlockIndex(
  snapshot: Uint8Array,
  options: BlockIndexOptions,
): { readonly index: BlockIndex; readonly cursors: Uint8Array } {
  const index = createFlatIndex(options);
  const cursors = loadSnapshot(snapshot, index.holdings, options.ranks);
  return { index, cursors };
}
