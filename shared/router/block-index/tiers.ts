/** Bits of a holding's tiers by the way in which the block was hashed; the lowest are those by our own hash. */
export const BY_SHARED_HASH = 4;
export const BY_PRIVATE_HASH = 8;
export const LEVEL_MASK = 15;

/** More than any tier's number: not held. */
export const NOT_HELD = 4;

/** One bit a level, however the block is hashed. */
export function levelsOf(tiers: number): number {
  return (tiers | (tiers >>> BY_SHARED_HASH) | (tiers >>> BY_PRIVATE_HASH)) & LEVEL_MASK;
}

/** The fastest level among `tiers`; `NOT_HELD` when there is none. */
export function fastest(tiers: number): number {
  const levels = levelsOf(tiers);
  return levels === 0 ? NOT_HELD : 31 - Math.clz32(levels & -levels);
}

export function hasLevel(tiers: number, level: number): boolean {
  return (levelsOf(tiers) & (1 << level)) !== 0;
}
