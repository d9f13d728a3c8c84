import type { RequestWeights } from '../config/request-weights.ts';
import type { Candidates } from './candidates.ts';
import { type CandidateRow, type CostInputs, hitsBeyond, type PromptFacts, type TierWeights } from './cost-inputs.ts';

/** Everything that Dynamo's formula weighs with. */
export interface DynamoWeights extends RequestWeights, TierWeights {
  readonly overlapScoreCreditDecay: number;
  readonly decodeActiveRequestWeight: number;
  /** The pool's label says decode: without prefill tracking the credit counts against decode blocks. */
  readonly isDecodePool: boolean;
}

/** Parts of one cost, in blocks: prefill, decode and requests add up to it. */
export interface DynamoTerms {
  /** Prompt blocks of the worker's prefills and of this request, before credit. */
  readonly rawPrefillBlocks: number;
  readonly overlapCredit: number;
  readonly prefill: number;
  readonly decode: number;
  readonly requests: number;
}

/** Fills `candidates.costs` from `candidates.prefillTokens`, and `candidates.cachedTokens` on the way. */
export function fillDynamoCosts(candidates: Candidates, inputs: CostInputs, weights: DynamoWeights): void {
  const { count, ranks, costs, prefillTokens, cachedTokens } = candidates;
  const { blockSizeTokens, promptTokens, hashedBlocks, activeBlocks, sharedDepths, activeRequests } = inputs;
  const { device, host, disk } = inputs.overlaps;
  const { overlapScoreCredit: credit, hostCacheHitWeight, diskCacheHitWeight } = weights;
  const { prefillLoadScale, decodeActiveRequestWeight, trackPrefillTokens } = weights;
  const ranges = weights.sharedCacheMultiplier > 0 ? inputs.sharedRanges : undefined;
  const creditsDecode = weights.isDecodePool && !trackPrefillTokens && credit > 0;
  const decay = trackPrefillTokens ? weights.overlapScoreCreditDecay : 0;
  const leastTokens = decay > 0 ? leastOf(prefillTokens, count) : 0;
  const promptBlocks = Math.max(1, Math.ceil(promptTokens / blockSizeTokens));
  for (let at = 0; at < count; at++) {
    const rank = ranks[at] as number;
    const onDevice = device[rank] as number;
    const onHost = hostCacheHitWeight * (host[rank] as number);
    const onDisk = diskCacheHitWeight * (disk[rank] as number);
    const cached = Math.round((onDevice + onHost + onDisk) * blockSizeTokens);
    cachedTokens[at] = cached;
    const tokens = prefillTokens[at] as number;
    let overlapCredit = onHost + onDisk;
    if (decay > 0) {
      const ahead = (tokens - leastTokens) / blockSizeTokens / promptBlocks;
      overlapCredit += (credit / (1 + decay * ahead)) * onDevice;
    } else {
      overlapCredit += credit * onDevice;
    }
    if (ranges !== undefined) overlapCredit += weights.sharedCacheMultiplier * hitsBeyond(ranges, onDevice);
    const decodeBlocks = (activeBlocks[rank] as number) + Math.max(0, hashedBlocks - (sharedDepths[rank] as number));
    const requests = decodeActiveRequestWeight * (activeRequests[rank] as number);
    if (creditsDecode) {
      costs[at] = Math.max(0, decodeBlocks - overlapCredit) + requests;
      continue;
    }
    const rawBlocks = trackPrefillTokens ? (tokens + Math.max(promptTokens, cached)) / blockSizeTokens : 0;
    costs[at] = prefillLoadScale * Math.max(0, rawBlocks - overlapCredit) + decodeBlocks + requests;
  }
}

/**
 * The parts of one candidate's cost, for people.
 * @param leastTokens fewest active prefill tokens among the candidates
 */
export function dynamoTerms(
  row: CandidateRow,
  prompt: PromptFacts,
  leastTokens: number,
  weights: DynamoWeights,
): DynamoTerms {
  const { blockSizeTokens, promptTokens } = prompt;
  const decay = weights.trackPrefillTokens ? weights.overlapScoreCreditDecay : 0;
  const promptBlocks = Math.max(1, Math.ceil(promptTokens / blockSizeTokens));
  const fade = 1 + (decay * (row.prefillTokens - leastTokens)) / blockSizeTokens / promptBlocks;
  const lowerTiers = weights.hostCacheHitWeight * row.hostBlocks + weights.diskCacheHitWeight * row.diskBlocks;
  const overlapCredit =
    (weights.overlapScoreCredit / fade) * row.deviceBlocks +
    lowerTiers +
    weights.sharedCacheMultiplier * row.sharedBlocks;
  const cachedTokens = Math.round((row.deviceBlocks + lowerTiers) * blockSizeTokens);
  const rawTokens = weights.trackPrefillTokens ? row.prefillTokens + Math.max(promptTokens, cachedTokens) : 0;
  const rawPrefillBlocks = rawTokens / blockSizeTokens;
  const decodeBlocks = row.activeBlocks + row.addedBlocks;
  const creditsDecode = weights.isDecodePool && !weights.trackPrefillTokens && weights.overlapScoreCredit > 0;
  return {
    rawPrefillBlocks,
    overlapCredit,
    prefill: creditsDecode ? 0 : weights.prefillLoadScale * Math.max(0, rawPrefillBlocks - overlapCredit),
    decode: creditsDecode ? Math.max(0, decodeBlocks - overlapCredit) : decodeBlocks,
    requests: weights.decodeActiveRequestWeight * row.activeRequests,
  };
}

function leastOf(values: Float64Array, count: number): number {
  let least = Number.POSITIVE_INFINITY;
  for (let at = 0; at < count; at++) least = Math.min(least, values[at] as number);
  return least;
}
