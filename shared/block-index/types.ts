/** Storage of a block. The weight of `disk` also applies to `external`. */
export type StorageTier = 'device' | 'host_pinned' | 'disk' | 'external';

/** Tiers from the fastest on. */
export const TIERS: readonly StorageTier[] = ['device', 'host_pinned', 'disk', 'external'];
export const TIER_NUMBERS = { device: 0, host_pinned: 1, disk: 2, external: 3 } as const;

/** Outcome of an event. All but `ok` are counted; none is fatal. */
export type IndexStatus = 'ok' | 'parent_block_not_found' | 'block_not_found' | 'invalid_block' | 'capacity_exhausted';

/** A 64-bit hash as two u32 halves. */
export type HashPair = readonly [low: number, high: number];

/** A run of blocks in one `stored` event. */
export interface StoredRun {
  readonly tier: StorageTier;
  /** The engine's hash of the block before the first one; undefined at the start of a prompt. */
  readonly parent: HashPair | undefined;
  readonly blockHashes: Uint32Array;
  readonly tokensHashes: Uint32Array;
}

/** A part of the holdings of a rank. */
export interface DumpSlice {
  readonly runs: readonly StoredRun[];
  /** Whether it is the last part. */
  readonly isLast: boolean;
}
