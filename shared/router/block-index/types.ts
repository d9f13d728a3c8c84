import type { BlockHashes } from '../../tokens/index.ts';
import type { Overlaps } from '../overlaps.ts';

/** Where a block lies (router.md, section 2.4); `external` is scored with the weight of `disk`. */
export type StorageTier = 'device' | 'host_pinned' | 'disk' | 'external';

/** What came of an event (router.md, section 4.2); everything but `ok` is counted, never fatal. */
export type IndexStatus = 'ok' | 'parent_block_not_found' | 'block_not_found' | 'invalid_block' | 'capacity_exhausted';

/**
 * Which blocks each rank holds. Hashes are pairs of u32 halves, low half first (ruling 21). `blockHashes` are the engine's
 * own, in whatever way it makes them; `tokensHashes` are ours (router.md, section 3.2; ruling 30). Ranks are numbers of a
 * `RankTable`. Applying an event twice equals applying it once.
 */
export interface BlockIndex {
  /** `parent` is the engine's hash of the block before the first one; absent at the start of a prompt. */
  stored(
    rank: number,
    tier: StorageTier,
    parent: readonly [low: number, high: number] | undefined,
    blockHashes: Uint32Array,
    tokensHashes: Uint32Array,
  ): IndexStatus;
  /** All hashes are processed; the first failure is reported. */
  removed(rank: number, tier: StorageTier, blockHashes: Uint32Array): IndexStatus;
  /** The rank holds nothing any more. Its blocks are invisible at once and given back in slices. */
  cleared(rank: number): void;
  /** As `cleared`, and the rank's number is recycled when nothing refers to it. */
  removeRank(rank: number): void;
  /** Fills `overlaps` (after `overlaps.reset`) with what each rank holds of the prompt, from its first block on. */
  match(hashes: BlockHashes, overlaps: Overlaps): void;
  /** Distinct blocks held by anybody. */
  readonly blockCount: number;
}
