import type { BlockIndex, IndexStatus } from '../block-index/index.ts';
import type { RankTable } from '../scheduler/ranks.ts';
import type { BlockChange } from './decode-events.ts';
import type { BlockChangeSink } from './kv-event-feed.ts';

/** Told of every change that was applied, and what came of it (`kv_cache_events_applied`). */
export type OnApplied = (kind: BlockChange['kind'], status: IndexStatus) => void;

/** The index of one worker set as the end of its workers' events. Ranks that left the table are passed over. */
export function indexSink(
  index: Pick<BlockIndex, 'stored' | 'removed' | 'cleared'>,
  ranks: RankTable,
  onApplied: OnApplied,
): BlockChangeSink {
  return {
    apply(workerId, dpRank, change) {
      const rank = ranks.find(workerId, dpRank);
      if (rank !== undefined) onApplied(change.kind, applyChange(index, rank, change));
    },
  };
}

/** Applies one change to one rank. */
export function applyChange(
  index: Pick<BlockIndex, 'stored' | 'removed' | 'cleared'>,
  rank: number,
  change: BlockChange,
): IndexStatus {
  switch (change.kind) {
    case 'stored':
      return index.stored(rank, change.tier, change.parent, change.blockHashes, change.tokensHashes);
    case 'removed':
      return index.removed(rank, change.tier, change.blockHashes);
    case 'cleared':
      index.cleared(rank);
      return 'ok';
  }
}
