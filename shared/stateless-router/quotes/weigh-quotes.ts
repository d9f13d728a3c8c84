import { SHORT_BACKLOG_TOKENS, statorTerms, uncachedTokens, uncachedWeight } from '../../scheduler/index.ts';
import type { HeldPlace, HoldTerms, QuotedRank } from './claims.ts';

/** What a rank of a worker said that a prompt would find there. */
export interface RankQuote extends QuotedRank {
  readonly workerId: string;
}

/** Places that a request claims one after another; the last one is taken whatever comes. */
export const CLAIMS_MAX = 3;

/** A prompt that looks for a place. */
export interface PlacedPrompt {
  /** Of its request. */
  readonly id: string;
  /** Worker that hashing names: it goes there unless another one is clearly cheaper. */
  readonly homeId: string;
  readonly tokens: number;
  readonly blockSizeTokens: number;
}

/** The cheapest of several. */
export interface BestQuote {
  readonly quote: RankQuote;
  /** Prompt tokens that it would compute there. */
  readonly uncachedTokens: number;
  /**
   * With more prompt tokens than that before it another one would be clearly cheaper; infinite where there is no other.
   */
  readonly prefillTokensMax: number;
}

/**
 * What a place costs more that is not where hashing sends the request: as much as computing all of it, at most this
 * many tokens. So every turn of a conversation goes one way in all processes, but for those that find their worker
 * busy, and those that decide in one instant, on the same quotes, do not all decide alike.
 */
const AWAY_TOKENS = 3000;
/** A claim is refused for no less: another question takes time, too. */
const CLAIM_SLACK_TOKENS = 1000;

/**
 * The terms on which the worker that hashing names takes a prompt without others being asked: it would compute so
 * little that nobody is clearly cheaper, and in a pass or two with what waits there.
 */
export function termsOf({ id, tokens }: Pick<PlacedPrompt, 'id' | 'tokens'>, dpRank?: number): HoldTerms {
  const weight = uncachedWeight(0, 1);
  const uncachedTokensMax = 1 + Math.floor(awayTokens(tokens, weight) / weight);
  return { id, dpRank, tokens, uncachedTokensMax, backlogTokensMax: SHORT_BACKLOG_TOKENS };
}

/**
 * The place that a worker holds on the terms, undefined = none: at the rank with the least to do, the request's own
 * tokens among it, then with the fewest blocks in use.
 */
export function placeOn(terms: HoldTerms, ranks: readonly QuotedRank[]): HeldPlace | undefined {
  const { id, dpRank: wanted, uncachedTokensMax, backlogTokensMax } = terms;
  const [least] = ranks
    .map(({ dpRank, cachedTokens, prefillTokens, activeBlocks }) => {
      const tokens = uncachedTokens(terms.tokens, cachedTokens);
      return { dpRank, tokens, backlog: prefillTokens + tokens, activeBlocks };
    })
    .filter(({ dpRank }) => wanted === undefined || dpRank === wanted)
    .filter(({ tokens, backlog }) => tokens <= uncachedTokensMax && backlog <= backlogTokensMax)
    .sort((one, other) => one.backlog - other.backlog || one.activeBlocks - other.activeBlocks);
  return least && { id, dpRank: least.dpRank, tokens: least.tokens };
}

/**
 * The quote to take: the cheapest by the cost model `stator`, the one that hashing names preferred. A pure function of
 * its arguments.
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
    prefillTokensMax: quote.prefillTokens + Math.floor(next - (costs[best] as number)) + CLAIM_SLACK_TOKENS,
  };
}

function costsOf(
  { homeId, tokens: promptTokens, blockSizeTokens }: PlacedPrompt,
  quotes: readonly RankQuote[],
): readonly number[] {
  const busy = quotes.filter(({ prefillTokens }) => prefillTokens > 0).length;
  const weight = uncachedWeight(busy, quotes.length);
  return quotes.map(({ workerId, cachedTokens, prefillTokens, activeBlocks }) => {
    const row = { prefillTokens, cachedTokens, activeBlocks, addedBlocks: 0 };
    const { backlog, uncached, decode } = statorTerms(row, { blockSizeTokens, promptTokens }, { weight, isOwn: true });
    return backlog + uncached + decode + (workerId === homeId ? 0 : awayTokens(promptTokens, weight));
  });
}

function awayTokens(promptTokens: number, weight: number): number {
  return Math.min(AWAY_TOKENS, weight * promptTokens);
}
