import type { EventEnvelope } from '../../../planes/event/index.ts';
import type { BlockIndex } from '../../block-index/types.ts';
import type { RankId } from '../types.ts';
import type { RankCursor } from './snapshot-object.ts';
import type { FoldedIndex } from './types.ts';

/** Whoever follows the event ids of each rank and asks workers for what was missed (router.md, section 4.6). */
export interface RankFollowing {
  apply(envelope: EventEnvelope): void;
  /** Ranks whose blocks are all there, with their positions. */
  cursors(): readonly RankCursor[];
  /** Goes on from these positions; every other rank has none. Recoveries under way are void. */
  resume(cursors: readonly RankCursor[]): void;
  /** Every rank of the pool as discovery knows it. */
  ranks(): readonly RankId[];
  recover(rank: RankId, signal: AbortSignal): Promise<void>;
}

export interface BlockIndexFoldOptions {
  /** An empty index (`createBlockIndex`). */
  create(): BlockIndex;
  /** The index of a snapshot (`loadBlockIndex`); throws when it cannot be read. */
  load(snapshot: Uint8Array): BlockIndex;
  readonly followers: RankFollowing;
  /** The index that is there now, to be asked and filled from now on; the one before is of no use any more. */
  onReplaced(index: BlockIndex): void;
}

/**
 * A block index as `IndexReader` and `Snapshotter` see it. Loading makes a new index: while it is loaded, and when it turns
 * out to be damaged, the one before still answers.
 */
export function foldBlockIndex(options: BlockIndexFoldOptions): FoldedIndex & { readonly index: BlockIndex } {
  const { followers } = options;
  let index = options.create();
  const replace = (next: BlockIndex, cursors: readonly RankCursor[]): void => {
    index = next;
    options.onReplaced(next);
    followers.resume(cursors);
  };
  options.onReplaced(index);
  return {
    get index() {
      return index;
    },
    apply: (envelope) => followers.apply(envelope),
    write: () => index.snapshot(new Uint8Array(0)), // the cursors stand in the head of the object
    async load(snapshot, cursors, signal) {
      signal.throwIfAborted();
      replace(options.load(snapshot), cursors);
    },
    clear: () => replace(options.create(), []),
    cursors: () => followers.cursors(),
    ranks: () => followers.ranks(),
    recover: (rank, signal) => followers.recover(rank, signal),
  };
}
