/** Where a block lies; `external` is scored with the weight of `disk`. */
export type StorageTier = 'device' | 'host_pinned' | 'disk' | 'external';

/** From the fastest on. */
export const TIERS: readonly StorageTier[] = ['device', 'host_pinned', 'disk', 'external'];
export const TIER_NUMBERS = { device: 0, host_pinned: 1, disk: 2, external: 3 } as const;

/** What came of an event; everything but `ok` is counted, never fatal. */
export type IndexStatus = 'ok' | 'parent_block_not_found' | 'block_not_found' | 'invalid_block' | 'capacity_exhausted';

/** A 64-bit hash as two u32 halves. */
export type HashPair = readonly [low: number, high: number];

/** A run of blocks as one `stored` event tells it. */
export interface StoredRun {
  readonly tier: StorageTier;
  /** The engine's hash of the block before the first one; undefined at the start of a prompt. */
  readonly parent: HashPair | undefined;
  readonly blockHashes: Uint32Array;
  readonly tokensHashes: Uint32Array;
}

/** A part of what a rank holds. */
export interface DumpSlice {
  readonly runs: readonly StoredRun[];
  /** Whether nothing follows. */
  readonly isLast: boolean;
}
