import {
  type BlockIndexOptions,
  loadBlockIndexInSlices,
} from '../../../shared/router/block-index/create-block-index.ts';
import type { BlockIndex } from '../../../shared/router/block-index/index.ts';

/** The index that a snapshot was taken of, loaded at once: about 50 ms for a million blocks. */
export function loadBlockIndex(
  snapshot: Uint8Array,
  options: BlockIndexOptions,
): { readonly index: BlockIndex; readonly cursors: Uint8Array } {
  const slices = loadBlockIndexInSlices(snapshot, options);
  let slice = slices.next();
  while (slice.done !== true) slice = slices.next();
  return { index: slice.value.settle(), cursors: slice.value.cursors };
}
