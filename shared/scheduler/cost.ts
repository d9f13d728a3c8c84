import type { Overlaps } from '../block-index/index.ts';
import { roomy } from '../records/index.ts';
import type { RequestWeights } from './kv-config-sources.ts';

export interface PromptFacts {
  readonly blockSizeTokens: number;
  readonly promptTokens: number;
}

/**
 * Facts about a request and about the ranks that it may go to, from which a formula computes costs. Arrays are by rank
 * number.
 */
export interface CostInputs extends PromptFacts {
  /** Complete blocks of the prompt that count as active blocks; 0 if active blocks are not tracked. */
  readonly hashedBlocks: number;
  /** Blocks of the prompt that each rank has cached. */
  readonly overlaps: Overlaps;
  /** Blocks of each rank's active requests. */
  readonly activeBlocks: Float64Array;
  /** Leading blocks of the prompt that each rank's active requests already use. */
  readonly sharedDepths: Uint32Array;
  readonly activeRequests: Float64Array;
  /** Blocks of the prompt that an outside pool holds: sorted, disjoint, `[start, end)`; undefined = none. */
  readonly sharedRanges: readonly (readonly [number, number])[] | undefined;
}

/** Weights of the storage tiers, the same in every formula. */
export interface TierWeights {
  readonly hostCacheHitWeight: number;
  readonly diskCacheHitWeight: number;
}

/** Inputs of the cost of one candidate, read from the arrays of `CostInputs`. Blocks and tokens. */
export interface CandidateRow {
  readonly prefillTokens: number;
  readonly deviceBlocks: number;
  readonly hostBlocks: number;
  readonly diskBlocks: number;
  /** Blocks that the outside pool holds beyond those on the device. */
  readonly sharedBlocks: number;
  readonly activeBlocks: number;
  readonly addedBlocks: number;
  readonly activeRequests: number;
}

/** Returns the prompt tokens that a candidate has cached, in all tiers. */
export function cachedTokensOf(
  { deviceBlocks, hostBlocks, diskBlocks }: Pick<CandidateRow, 'deviceBlocks' | 'hostBlocks' | 'diskBlocks'>,
  { blockSizeTokens }: Pick<PromptFacts, 'blockSizeTokens'>,
  { hostCacheHitWeight, diskCacheHitWeight }: TierWeights,
): number {
  return Math.round(
    (deviceBlocks + hostCacheHitWeight * hostBlocks + diskCacheHitWeight * diskBlocks) * blockSizeTokens,
  );
}

/** Returns the number of blocks that the outside pool holds at positions `from` and later. */
export function hitsBeyond(ranges: readonly (readonly [number, number])[], from: number): number {
  let hits = 0;
  for (const [start, end] of ranges) hits += Math.max(0, end - Math.max(start, from));
  return hits;
}

/**
 * The ranks that a request may go to, and the cost of each, in arrays that are reused from request to request. The
 * first `count` entries are valid.
 */
export class Candidates {
  /** Rank numbers, in the order of worker id and rank. */
  ranks: Uint32Array<ArrayBuffer> = new Uint32Array(64);
  costs: Float64Array<ArrayBuffer> = new Float64Array(64);
  /** Active prefill tokens of each candidate, decayed to the present. */
  prefillTokens: Float64Array<ArrayBuffer> = new Float64Array(64);
  /** Prompt tokens that each candidate has cached, in all tiers. */
  cachedTokens: Float64Array<ArrayBuffer> = new Float64Array(64);
  /** Parts of each cost, as many for each candidate as the formula has; only if it computes them (`termsFor`). */
  terms: Float64Array<ArrayBuffer> = new Float64Array(0);
  count = 0;

  reserve(count: number): void {
    if (count <= this.ranks.length) return;
    this.ranks = roomy(this.ranks, count);
    this.costs = roomy(this.costs, count);
    this.prefillTokens = roomy(this.prefillTokens, count);
    this.cachedTokens = roomy(this.cachedTokens, count);
  }

  /** Returns `terms` with room for `size` parts of the cost of each candidate. */
  termsFor(size: number): Float64Array {
    this.terms = roomy(this.terms, size * this.count);
    return this.terms;
  }

  add(rank: number): void {
    this.reserve(this.count + 1);
    this.ranks[this.count++] = rank;
  }

  addAll(ranks: Uint32Array): void {
    this.reserve(this.count + ranks.length);
    this.ranks.set(ranks, this.count);
    this.count += ranks.length;
  }
}

/** All weights of Dynamo's formula. */
export interface DynamoWeights extends RequestWeights, TierWeights {
  readonly overlapScoreCreditDecay: number;
  readonly decodeActiveRequestWeight: number;
  /** Whether the pool's label says decode. Then, without prefill tracking, the credit counts against decode blocks. */
  readonly isDecodePool: boolean;
}

/** Parts of one cost, in blocks. Prefill, decode and requests add up to it. */
export interface DynamoTerms {
  readonly prefill: number;
  readonly decode: number;
  readonly requests: number;
}

/** Fills `candidates.costs` from `candidates.prefillTokens`. Fills `candidates.cachedTokens`, too. */
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
 * Returns the parts of one candidate's cost, for an explanation to operators.
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
  const cachedTokens = cachedTokensOf(row, prompt, weights);
  const rawTokens = weights.trackPrefillTokens ? row.prefillTokens + Math.max(promptTokens, cachedTokens) : 0;
  const rawPrefillBlocks = rawTokens / blockSizeTokens;
  const decodeBlocks = row.activeBlocks + row.addedBlocks;
  const creditsDecode = weights.isDecodePool && !weights.trackPrefillTokens && weights.overlapScoreCredit > 0;
  return {
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

/**
 * Cost of joining a rank in the middle of a prefill, in tokens: twice the fixed cost of a pass. The request waits for
 * the end of that pass and shares the next one.
 */
export const SHARED_PASS_TOKENS = 2000;
/** Says which of several equally good ranks this router prefers, if several routers place requests in one pool. */
export interface ReplicaShare {
  /** Whether the rank belongs to this router. Every rank belongs to one of the live routers. */
  isOwn(rank: number): boolean;
  /** Number of routers that place requests in the pool, this one included. */
  readonly routers: number;
}

/**
 * Backlog, with what the request adds, below which a request goes to a rank that already prefills: about the fixed cost
 * of two passes. So short prompts share passes instead of waiting for each other.
 */
export const SHORT_BACKLOG_TOKENS = 2000;

/** Returns the prompt tokens that a rank would compute: at least the last one, which gives the first output. */
export function uncachedTokens(promptTokens: number, cachedTokens: number): number {
  return promptTokens - Math.min(Math.max(0, promptTokens - 1), cachedTokens);
}
