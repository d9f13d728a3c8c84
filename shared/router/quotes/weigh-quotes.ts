import { type RendezvousKey, seedOf, weightOf } from '../rendezvous.ts';
import { statorTerms, uncachedTokens, uncachedWeight } from '../scheduler/cost.ts';

/** What a rank of a worker said that a prompt would find there. */
export interface RankQuote {
  readonly workerId: string;
  readonly dpRank: number;
  /** Leading prompt tokens that are cached. */
  readonly cachedTokens: number;
  /** Prompt tokens that are to be computed there before it, those of requests on their way among them. */
  readonly prefillTokens: number;
  /** KV blocks in use. */
  readonly activeBlocks: number;
}

/** Places that a request claims one after another; the last one is taken whatever comes. */
export const CLAIMS_MAX = 3;

/** A prompt that looks for a place. */
export interface PlacedPrompt {
  /** Of its request. */
  readonly id: string;
  /** Decides where places are about equal: of its conversation, which then stays where it is, else of the request. */
  readonly draw: RendezvousKey;
  readonly tokens: number;
  readonly blockSizeTokens: number;
}

/** The cheapest of several. */
export interface BestQuote {
  readonly quote: RankQuote;
  /** Prompt tokens that it would compute there. */
  readonly uncachedTokens: number;
  /** With more prompt tokens than that before it another one would be cheaper; infinite where there is no other. */
  readonly prefillTokensMax: number;
}

/**
 * Each conversation prefers some places to others by up to so many tokens, or by this part of what computing all of a prompt would cost:
 * so those that decide in one instant, on the same quotes, do not all decide alike. A good cache hit weighs more.
 */
const DRAW_TOKENS = 6000;
const DRAW_SHARE = 0.5;
const TIERS = { hostCacheHitWeight: 0, diskCacheHitWeight: 0 }; // counted by whoever quoted

/**
 * The quote to take: the cheapest by the cost model `stator`. A pure function of its arguments.
 * @param quotes at least one
 */
export function bestQuote(prompt: PlacedPrompt, quotes: readonly RankQuote[]): BestQuote {
  const costs = costsOf(prompt, quotes);
  let best = 0;
  for (let at = 1; at < quotes.length; at++) if ((costs[at] as number) < (costs[best] as number)) best = at;
  const next = costs.reduce(
    (least, cost, at) => (at === best ? least : Math.min(least, cost)),
    Number.POSITIVE_INFINITY,
  );
  const quote = quotes[best] as RankQuote;
  return {
    quote,
    uncachedTokens: uncachedTokens(prompt.tokens, quote.cachedTokens),
    prefillTokensMax: quote.prefillTokens + Math.floor(next - (costs[best] as number)),
  };
}

function costsOf(prompt: PlacedPrompt, quotes: readonly RankQuote[]): readonly number[] {
  const { draw, tokens: promptTokens, blockSizeTokens } = prompt;
  const busy = quotes.filter(({ prefillTokens }) => prefillTokens > 0).length;
  const weight = uncachedWeight(busy, quotes.length);
  const drawTokens = Math.min(DRAW_TOKENS, DRAW_SHARE * weight * promptTokens);
  return quotes.map(({ workerId, dpRank, cachedTokens, prefillTokens, activeBlocks }) => {
    const row = {
      prefillTokens,
      deviceBlocks: cachedTokens / blockSizeTokens,
      hostBlocks: 0,
      diskBlocks: 0,
      sharedBlocks: 0,
      activeBlocks,
      addedBlocks: 0,
      activeRequests: 0,
    };
    const facts = { blockSizeTokens, promptTokens };
    const { backlog, uncached, decode } = statorTerms(row, facts, TIERS, { weight, isOwn: true });
    const drawn = weightOf(draw, seedOf(`${workerId}/${dpRank}`)) / 2 ** 32;
    return backlog + uncached + decode + drawTokens * drawn;
  });
}
