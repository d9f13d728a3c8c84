// What one event does beside its own blocks has a bound. The event looks at
// - SWEPT_PER_BLOCK for each of its blocks and SWEPT_PER_EVENT blocks for the sweep,
// - LOOKS_MAX blocks, and LOOKED_AT_PER_HASH for each of its hashes, below the blocks that it removes,
// and evicts at most EVICTED_AHEAD blocks more than it adds. Later events and slices of other work do the rest.

/** Blocks that an event looks at for the sweep, for each block of its own. */
export const SWEPT_PER_BLOCK = 2;
/** Blocks that an event looks at for the sweep in any case. */
export const SWEPT_PER_EVENT = 8;

/** Blocks that give way to an event at most, beyond those that it adds: less than 1 ms. */
export const EVICTED_AHEAD = 1024;

/**
 * Blocks below a removed one that an event looks at in any case; less than 0.1 ms. `BlockIndexOptions.looksMax`
 * replaces it.
 */
export const LOOKS_MAX = 512;
/** Blocks below a removed one that an event looks at for each of its hashes, beyond `LOOKS_MAX`. */
export const LOOKED_AT_PER_HASH = 4;
