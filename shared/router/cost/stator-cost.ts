import type { Candidates } from './candidates.ts';
import type { CandidateRow, CostInputs, PromptFacts, TierWeights } from './cost-inputs.ts';

/** Weight of a token that this request leaves to compute, against one that waits already. */
const UNCACHED_WEIGHT = 4;
/** Weight of a token that is decoded over, against one that waits to be prefilled. */
const DECODE_WEIGHT = 0.003;

/** Parts of one cost, in prompt tokens; lower is better (router.md, section 12.5). */
export interface StatorTerms {
  readonly backlog: number;
  readonly uncached: number;
  readonly decode: number;
}

/** Prompt tokens that a rank would compute: at least the last one, which gives the first output. */
export function uncachedTokens(promptTokens: number, cachedTokens: number): number {
  return promptTokens - Math.min(Math.max(0, promptTokens - 1), cachedTokens);
}

/** Fills `candidates.costs` from backlogs in `candidates.prefillTokens`, and `candidates.cachedTokens` on the way. */
export function fillStatorCosts(candidates: Candidates, inputs: CostInputs, weights: TierWeights): void {
  const { count, ranks, costs, prefillTokens, cachedTokens } = candidates;
  const { blockSizeTokens, promptTokens, hashedBlocks, activeBlocks, sharedDepths } = inputs;
  const { device, host, disk } = inputs.overlaps;
  const { hostCacheHitWeight, diskCacheHitWeight } = weights;
  const decodeWeight = DECODE_WEIGHT * blockSizeTokens;
  for (let at = 0; at < count; at++) {
    const rank = ranks[at] as number;
    const blocks =
      (device[rank] as number) +
      hostCacheHitWeight * (host[rank] as number) +
      diskCacheHitWeight * (disk[rank] as number);
    const cached = Math.round(blocks * blockSizeTokens);
    cachedTokens[at] = cached;
    const decodeBlocks = (activeBlocks[rank] as number) + Math.max(0, hashedBlocks - (sharedDepths[rank] as number));
    costs[at] =
      (prefillTokens[at] as number) +
      UNCACHED_WEIGHT * uncachedTokens(promptTokens, cached) +
      decodeWeight * decodeBlocks;
  }
}

/** The parts of one candidate's cost, for people. */
export function statorTerms(row: CandidateRow, prompt: PromptFacts, weights: TierWeights): StatorTerms {
  const blocks =
    row.deviceBlocks + weights.hostCacheHitWeight * row.hostBlocks + weights.diskCacheHitWeight * row.diskBlocks;
  const cached = Math.round(blocks * prompt.blockSizeTokens);
  return {
    backlog: row.prefillTokens,
    uncached: UNCACHED_WEIGHT * uncachedTokens(prompt.promptTokens, cached),
    decode: DECODE_WEIGHT * prompt.blockSizeTokens * (row.activeBlocks + row.addedBlocks),
  };
}
