import type { Candidates } from './candidates.ts';
import type { CandidateRow, CostInputs, PromptFacts, TierWeights } from './cost-inputs.ts';

/**
 * Weight of a token that this request leaves to compute, against one that waits already, where nobody prefills. Cache hits
 * spare time for whoever comes later, the more so the busier the pool is: there they count twice as much.
 */
const UNCACHED_WEIGHT = 2;
const UNCACHED_WEIGHT_BUSY = 4;
/** Weight of a token that is decoded over, against one that waits to be prefilled. */
const DECODE_WEIGHT = 0.003;
/**
 * A request that joins a rank in the middle of a prefill waits for the end of that pass and shares the next one: two times
 * the fixed cost of a pass, in tokens.
 */
const SHARED_PASS_TOKENS = 2000;
/**
 * What a rank outside of this router's own share costs more (`ReplicaShare`): as much as 750 tokens to compute in a busy
 * pool. Less than a good cache hit, more than the small differences that would send every router to the same rank.
 */
const FOREIGN_SHARE_COST = 3000;
/** The same for a short prompt: at most this share of what computing all of it would cost, so that a full hit outweighs it. */
const FOREIGN_SHARE_MAX = 0.5;

/** Tells which ranks this router prefers among equals, where several routers place requests in one pool. */
export interface ReplicaShare {
  /** Every rank belongs to one of the live routers. */
  isOwn(rank: number): boolean;
}

/**
 * Parts of one cost, in prompt tokens; lower is better. Dynamo's formula, and three things more: the
 * weight of uncached tokens follows how busy the pool is, a rank that prefills costs the pass that is shared, and routers
 * that place requests in the same instant, and so cannot know of each other's, each prefer a share of the ranks.
 */
export interface StatorTerms {
  readonly backlog: number;
  readonly uncached: number;
  readonly decode: number;
  readonly share: number;
}

/** Weight of an uncached token in a pool where `busy` of `count` ranks prefill. */
export function uncachedWeight(busy: number, count: number): number {
  return UNCACHED_WEIGHT + (UNCACHED_WEIGHT_BUSY - UNCACHED_WEIGHT) * Math.sqrt(count === 0 ? 0 : busy / count);
}

/** What a rank of another router's share costs a prompt of `promptTokens`, where an uncached token weighs `weight`. */
export function foreignShareCost(promptTokens: number, weight: number): number {
  return Math.min(FOREIGN_SHARE_COST, FOREIGN_SHARE_MAX * weight * promptTokens);
}

/**
 * A request goes to a rank that prefills already where the backlog, with what the request adds, stays below this: about the
 * fixed cost of two passes. So short prompts share passes instead of waiting for each other.
 */
export const SHORT_BACKLOG_TOKENS = 2000;

/** Prompt tokens that a rank would compute: at least the last one, which gives the first output. */
export function uncachedTokens(promptTokens: number, cachedTokens: number): number {
  return promptTokens - Math.min(Math.max(0, promptTokens - 1), cachedTokens);
}

function withSharedPass(backlog: number): number {
  return backlog === 0 ? 0 : backlog + SHARED_PASS_TOKENS;
}

/** Fills `candidates.costs` from backlogs in `candidates.prefillTokens`, and `candidates.cachedTokens` on the way. */
export function fillStatorCosts(
  candidates: Candidates,
  inputs: CostInputs,
  weights: TierWeights,
  share: ReplicaShare | undefined,
): void {
  const { count, ranks, costs, prefillTokens, cachedTokens } = candidates;
  const { blockSizeTokens, promptTokens, hashedBlocks, activeBlocks, sharedDepths } = inputs;
  const { device, host, disk } = inputs.overlaps;
  const { hostCacheHitWeight, diskCacheHitWeight } = weights;
  const decodeWeight = DECODE_WEIGHT * blockSizeTokens;
  let busy = 0;
  for (let at = 0; at < count; at++) if ((prefillTokens[at] as number) > 0) busy++;
  const weight = uncachedWeight(busy, count);
  const foreignCost = foreignShareCost(promptTokens, weight);
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
      withSharedPass(prefillTokens[at] as number) +
      weight * uncachedTokens(promptTokens, cached) +
      decodeWeight * decodeBlocks +
      (share === undefined || share.isOwn(rank) ? 0 : foreignCost);
  }
}

/** The parts of one candidate's cost, for people. `weight` is that of the decision. */
export function statorTerms(
  row: CandidateRow,
  prompt: PromptFacts,
  weights: TierWeights,
  { weight, isOwn }: { readonly weight: number; readonly isOwn: boolean },
): StatorTerms {
  const blocks =
    row.deviceBlocks + weights.hostCacheHitWeight * row.hostBlocks + weights.diskCacheHitWeight * row.diskBlocks;
  const cached = Math.round(blocks * prompt.blockSizeTokens);
  return {
    backlog: withSharedPass(row.prefillTokens),
    uncached: weight * uncachedTokens(prompt.promptTokens, cached),
    decode: DECODE_WEIGHT * prompt.blockSizeTokens * (row.activeBlocks + row.addedBlocks),
    share: isOwn ? 0 : foreignShareCost(prompt.promptTokens, weight),
  };
}
