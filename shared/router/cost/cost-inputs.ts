import type { Overlaps } from '../overlaps.ts';

export interface PromptFacts {
  readonly blockSizeTokens: number;
  readonly promptTokens: number;
}

/** What a formula knows of a request and of the ranks it may go to. Arrays are by rank number. */
export interface CostInputs extends PromptFacts {
  /** Complete blocks of the prompt that count as active blocks; 0 where active blocks are not tracked. */
  readonly hashedBlocks: number;
  /** What each rank has cached of the prompt. */
  readonly overlaps: Overlaps;
  /** Blocks of each rank's active requests. */
  readonly activeBlocks: Float64Array;
  /** Leading blocks of the prompt that are among those. */
  readonly sharedDepths: Uint32Array;
  readonly activeRequests: Float64Array;
  /** Blocks of an outside pool: sorted, disjoint, `[start, end)`; undefined = none. */
  readonly sharedRanges: readonly (readonly [number, number])[] | undefined;
}

/** Weights of the tiers, the same in every formula. */
export interface TierWeights {
  readonly hostCacheHitWeight: number;
  readonly diskCacheHitWeight: number;
}

/** The same for one candidate, taken out of the arrays. Blocks and tokens. */
export interface CandidateRow {
  readonly prefillTokens: number;
  readonly deviceBlocks: number;
  readonly hostBlocks: number;
  readonly diskBlocks: number;
  /** Of the outside pool, beyond the device's. */
  readonly sharedBlocks: number;
  readonly activeBlocks: number;
  readonly addedBlocks: number;
  readonly activeRequests: number;
}

/** Blocks of the outside pool at positions `from` and later. */
export function hitsBeyond(ranges: readonly (readonly [number, number])[], from: number): number {
  let hits = 0;
  for (const [start, end] of ranges) hits += Math.max(0, end - Math.max(start, from));
  return hits;
}
