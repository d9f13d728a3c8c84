// The work of one event beyond its own blocks has a bound. The event checks
// - SWEPT_PER_BLOCK for each of its blocks and SWEPT_PER_EVENT blocks for the sweep,
// - LOOKS_MAX blocks, and LOOKED_AT_PER_HASH for each of its hashes, below the blocks that it removes,
// and evicts at most EVICTED_AHEAD blocks more than it adds. Later events and slices of other work do the rest.

/** Blocks that an event checks for the sweep, for each block of its own. */
export const SWEPT_PER_BLOCK = 2;
/** Blocks that every event checks for the sweep, in addition. */
export const SWEPT_PER_EVENT = 8;

/** Number of blocks that an event evicts at most, beyond as many as it adds: less than 1 ms. */
export const EVICTED_AHEAD = 1024;

/**
 * Blocks below a removed one that every event may check; less than 0.1 ms. `BlockIndexOptions.looksMax` replaces it.
 */
export const LOOKS_MAX = 512;
/** Blocks below a removed one that an event may check for each of its hashes, beyond `LOOKS_MAX`. */
export const LOOKED_AT_PER_HASH = 4;
