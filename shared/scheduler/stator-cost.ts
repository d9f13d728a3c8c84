import {
  type Candidates,
  type CostInputs,
  type ReplicaShare,
  SHARED_PASS_TOKENS,
  type TierWeights,
  uncachedTokens,
} from './cost.ts';
import type { RankSpeeds } from './load/rank-speeds.ts';

/**
 * Parts of one cost, in milliseconds to the first token; lower is better. They add up to it:
 *
 * - `wait`: until the prefills that are ahead are done, and the pass that the request shares
 * - `slot`: until one of the requests that the rank runs ends, if it runs as many as it can
 * - `compute`: prefill of the prompt tokens that the rank has not cached
 * - `later`: what later requests lose if the prompt's blocks are not where they are cached
 * - `copy`: less than 0 on ranks that lack what others have cached, by what a copy would have spared earlier requests
 * - `decode`: decode steps of the request, which are longer the more context the rank's requests have
 * - `others`: what the context of the request adds to the decode steps of the rank's requests
 * - `share`: what keeps the choices of several routers apart
 * - `unseen`: requests that other routers may have sent there in the same instant
 * - `home`: less than 0 on the rank that is the prompt's home, by `compute` and `later` of its tokens; otherwise 0
 */
export const STATOR_TERMS = [
  'wait',
  'slot',
  'compute',
  'later',
  'copy',
  'decode',
  'others',
  'share',
  'unseen',
  'home',
] as const;
export type StatorTerms = Readonly<Record<(typeof STATOR_TERMS)[number], number>>;
export const TERM_COUNT = STATOR_TERMS.length;
export const [COMPUTE, LATER, COPY] = [2, 3, 4] as const;
const [WAIT, SLOT, DECODE, OTHERS, SHARE, UNSEEN, HOME] = [0, 1, 5, 6, 7, 8, 9] as const;

/**
 * Weight of a token that a rank has not cached, for later requests, if every rank prefills. A token that this request
 * has to compute weighs 1. While ranks are idle, a prefix that is computed twice delays no other request.
 */
const LATER_WEIGHT_BUSY = 4;
/** Part of its context that a rank keeps while a request decodes: requests are on average halfway through. */
const CONTEXT_KEPT = 0.5;
/**
 * Most that a millisecond of decoding weighs, in milliseconds to the first token. Without a bound, first tokens that
 * come late would make decoding weigh more, and so later ones come still later.
 */
const DECODE_WEIGHT_MAX = 0.05;
/** Most output tokens that count. A client that expects more must not make its requests ignore every cache. */
const OUTPUT_TOKENS_MAX = 32_768;
/**
 * Factor of the time until a place in a full rank's batch is free. The request that waits for it also keeps its place
 * in the rank's queue from others, which routers see only once they end.
 */
const SLOT_WEIGHT = 2;
/**
 * Extra cost of a rank outside this router's share: as much as a prompt of this length that the rank has not cached. It
 * is less than a good cache hit, but more than the small differences that would send every router to the same rank.
 */
const OTHERS_SHARE_TOKENS = 750;
/**
 * Bound of that extra cost for a short prompt, as a share of the cost of computing the whole prompt. With it a full
 * cache hit outweighs the extra cost.
 */
const OTHERS_SHARE_MAX = 0.5;

/** Facts that the cost model `stator` needs beyond those of every formula. Arrays are by rank number. */
export interface StatorFacts {
  /** Prompt tokens of each rank's requests; those that requests share count for each of them. */
  readonly contextTokens: Float64Array;
  /** Most requests that each rank runs at once; infinity = unknown. */
  readonly requestsMax: Float64Array;
  /** Output tokens that the client expects; undefined = as many as requests have had on average. */
  readonly expectedOutputTokens: number | undefined;
  readonly speeds: RankSpeeds;
}

/**
 * Fills `candidates.costs` and `candidates.terms` from the backlogs in `candidates.prefillTokens`. Fills
 * `candidates.cachedTokens`, too.
 */
export function fillStatorCosts(
  candidates: Candidates,
  inputs: CostInputs,
  { contextTokens, requestsMax, expectedOutputTokens, speeds }: StatorFacts,
  weights: TierWeights,
): void {
  const { count, ranks, costs, prefillTokens, cachedTokens } = candidates;
  const { blockSizeTokens, promptTokens, sharedDepths, activeRequests } = inputs;
  const { device, host, disk } = inputs.overlaps;
  const { hostCacheHitWeight, diskCacheHitWeight } = weights;
  const { msPerToken, slowness: slownesses, outputTokens: outputMean, e2eMs, stepMs } = speeds;
  const terms = candidates.termsFor(TERM_COUNT);
  const laterMs = msPerToken * laterWeight(candidates);
  const output = Math.min(OUTPUT_TOKENS_MAX, expectedOutputTokens ?? outputMean);
  const decodeWeight = Math.min(DECODE_WEIGHT_MAX, speeds.firstTokenShare);
  const contextMs = CONTEXT_KEPT * speeds.stepMsPerToken;
  const othersMs = decodeWeight * Math.min(output, outputMean / 2) * contextMs * (promptTokens + output / 2);
  for (let at = 0, term = 0; at < count; at++, term += TERM_COUNT) {
    const rank = ranks[at] as number;
    const slowness = slownesses[rank] as number;
    const pace = msPerToken * Math.sqrt(slowness); // at full length, a slow rank's prefills would fill the fast ranks
    const onDevice = device[rank] as number;
    const held = onDevice + hostCacheHitWeight * (host[rank] as number) + diskCacheHitWeight * (disk[rank] as number);
    const missing = uncachedTokens(promptTokens, Math.round(held * blockSizeTokens));
    // What its requests compute now is cached by the time of this request.
    const cached = Math.round(Math.max(held, sharedDepths[rank] as number) * blockSizeTokens);
    cachedTokens[at] = cached;
    const backlog = prefillTokens[at] as number;
    const requests = activeRequests[rank] as number;
    const context = (contextTokens[rank] as number) + (requests * outputMean) / 2;
    const most = requestsMax[rank] as number;
    const wait = backlog === 0 ? 0 : pace * (backlog + SHARED_PASS_TOKENS);
    const slot = requests < most ? 0 : SLOT_WEIGHT * (requests + 1 - most) * (e2eMs / most);
    const compute = pace * uncachedTokens(promptTokens, cached);
    const later = laterMs * missing;
    const decode = decodeWeight * slowness * output * (stepMs + contextMs * context);
    const others = slowness * requests * othersMs;
    terms[term + WAIT] = wait;
    terms[term + SLOT] = slot;
    terms[term + COMPUTE] = compute;
    terms[term + LATER] = later;
    terms[term + COPY] = 0;
    terms[term + DECODE] = decode;
    terms[term + OTHERS] = others;
    terms[term + SHARE] = 0;
    terms[term + UNSEEN] = 0;
    terms[term + HOME] = 0;
    costs[at] = wait + slot + compute + later + decode + others;
  }
}

/** Prompt tokens that each of `count` ranks still has to prefill. */
interface Backlogs {
  readonly prefillTokens: ArrayLike<number>;
  readonly count: number;
}

/** Returns the weight of a token that a rank has not cached, for later requests. */
export function laterWeight(backlogs: Backlogs): number {
  return LATER_WEIGHT_BUSY * busyShare(backlogs) ** 2;
}

/** Returns the share of ranks that still have something to prefill. */
export function busyShare({ prefillTokens, count }: Backlogs): number {
  let busy = 0;
  for (let at = 0; at < count; at++) if ((prefillTokens[at] as number) > 0) busy++;
  return busy / count;
}

/** Adds the cost of ranks outside this router's share. The more routers there are for each rank, the lower it is. */
export function addShareCosts(
  candidates: Candidates,
  promptTokens: number,
  msPerToken: number,
  share: ReplicaShare,
): void {
  const { count, ranks, costs, terms } = candidates;
  if (share.routers === 1) return;
  const tokens = (1 + laterWeight(candidates)) * Math.min(OTHERS_SHARE_TOKENS, OTHERS_SHARE_MAX * promptTokens);
  const extra = tokens * msPerToken * Math.min(1, count / share.routers);
  for (let at = 0; at < count; at++) {
    if (share.isOwn(ranks[at] as number)) continue;
    terms[TERM_COUNT * at + SHARE] = extra;
    costs[at]! += extra;
  }
}

/** Lowers the cost of the candidate at position `at`, which is the home of the prompt. */
export function subtractHomeSaving({ costs, terms }: Candidates, at: number, savedMs: number): void {
  terms[TERM_COUNT * at + HOME] = -savedMs;
  costs[at]! -= savedMs;
}

/** Adds the time that drawn requests of other routers take, which may be at a rank without this router's knowledge. */
export function addUnseenCosts(candidates: Candidates, speeds: RankSpeeds, tokens: Float64Array): void {
  const { count, ranks, costs, terms, prefillTokens } = candidates;
  for (let at = 0; at < count; at++) {
    const drawn = tokens[at] as number;
    if (drawn === 0) continue;
    const pass = prefillTokens[at] === 0 ? SHARED_PASS_TOKENS : 0;
    const extra = (drawn + pass) * speeds.msPerTokenOf(ranks[at] as number);
    terms[TERM_COUNT * at + UNSEEN] = extra;
    costs[at]! += extra;
  }
}
