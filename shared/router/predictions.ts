import type { BlockHashes } from '../tokens/index.ts';
import type { Overlaps } from './overlaps.ts';
import type { RankTable } from './rank-table.ts';
import type { PrefixIndex } from './scheduler/scheduler-types.ts';

/** What ranks hold as far as the router's own decisions tell; `ApproximateIndex` is one. */
export interface Predictions {
  decided(requestId: string, rank: number, hashes: BlockHashes): void;
  freed(requestId: string): void;
  setCapacity(rank: number, blocks: number | undefined): void;
  /** The rank's number may be given to another pair afterwards. */
  removeRank(rank: number): void;
  match(hashes: BlockHashes, overlaps: Overlaps): void;
  /** Raises what another index found on the device to what is known here. */
  raise(hashes: BlockHashes, overlaps: Overlaps): void;
  blocksOf(rank: number): number;
}

/** The index of a router without KV events: decisions are all it knows. */
export function predictedIndex(predictions: Predictions, ranks: Pick<RankTable, 'recycle'>): PrefixIndex {
  return {
    match: (hashes, overlaps) => predictions.match(hashes, overlaps),
    removeRank: (rank) => {
      predictions.removeRank(rank);
      ranks.recycle(rank);
    },
    setCapacity: (rank, blocks) => predictions.setCapacity(rank, blocks),
    decided: (requestId, rank, hashes) => predictions.decided(requestId, rank, hashes),
    freed: (requestId) => predictions.freed(requestId),
    blocksOf: (rank) => predictions.blocksOf(rank),
  };
}

/** An index of events with decisions beside it, so that a burst of siblings meets before the first event arrives. */
export function predictingIndex(events: PrefixIndex, predictions: Predictions): PrefixIndex {
  return {
    match: (hashes, overlaps) => {
      events.match(hashes, overlaps);
      predictions.raise(hashes, overlaps);
    },
    removeRank: (rank) => {
      predictions.removeRank(rank);
      events.removeRank(rank); // gives the number back when nothing refers to it
    },
    decided: (requestId, rank, hashes) => predictions.decided(requestId, rank, hashes),
    freed: (requestId) => predictions.freed(requestId),
    blocksOf: (rank) => events.blocksOf?.(rank) ?? 0,
  };
}
