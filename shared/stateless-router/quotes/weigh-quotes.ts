import { SHARED_PASS_TOKENS, SHORT_BACKLOG_TOKENS, uncachedTokens, uncachedWeight } from '../../scheduler/index.ts';
import type { HeldPlace, HoldTerms, QuotedRank } from './claims.ts';

/** A rank's quote for a prompt, and its worker. */
export interface RankQuote extends QuotedRank {
  readonly workerId: string;
}

/** Number of places that a request claims one after another. It takes the last one in any case. */
export const CLAIMS_MAX = 3;

/** A prompt for which a place is sought. */
export interface PlacedPrompt {
  /** Id of its request. */
  readonly id: string;
  /** Worker that hashing names. The request goes there unless another one is clearly cheaper. */
  readonly homeId: string;
  readonly tokens: number;
  readonly blockSizeTokens: number;
}

/** The cheapest of several quotes. */
export interface BestQuote {
  readonly quote: RankQuote;
  /** Prompt tokens that the worker would have to compute for it. */
  readonly uncachedTokens: number;
  /** Backlog above which another worker would be clearly cheaper; infinite if there is no other. */
  readonly prefillTokensMax: number;
}

/**
 * Bound, in tokens, of the extra cost of a place that hashing does not name. The extra cost is as much as computing the
 * whole prompt. It sends every turn of a conversation to one worker, from all processes, unless that worker is busy. It
 * also keeps processes that decide in one instant, with the same quotes, from all choosing the same worker.
 */
const AWAY_TOKENS = 3000;
/** Weight of a token in the context of running requests, relative to a token that waits for prefill. */
const DECODE_WEIGHT = 0.003;
/** Backlog up to which no claim is refused, because another question takes time, too. */
const CLAIM_SLACK_TOKENS = 1000;

/**
 * Returns the terms on which the worker that hashing names may take a prompt without questions to others. It would
 * compute so little that no other worker is clearly cheaper, and would do so in a pass or two along with its backlog.
 */
export function termsOf({ id, tokens }: Pick<PlacedPrompt, 'id' | 'tokens'>, dpRank?: number): HoldTerms {
  const weight = uncachedWeight(0, 1);
  const uncachedTokensMax = 1 + Math.floor(awayTokens(tokens, weight) / weight);
  return { id, dpRank, tokens, uncachedTokensMax, backlogTokensMax: SHORT_BACKLOG_TOKENS };
}

/**
 * Returns the place that a worker holds on these terms; undefined = none. It is at the rank with the least to compute,
 * the request's own tokens included, and then with the fewest blocks in use.
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
 * Returns the best quote: the cheapest by backlog, tokens to compute and tokens in context. Prefers the worker that
 * hashing names. A pure function of its arguments.
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
    const backlog = prefillTokens === 0 ? 0 : prefillTokens + SHARED_PASS_TOKENS;
    const decode = DECODE_WEIGHT * blockSizeTokens * activeBlocks;
    const away = workerId === homeId ? 0 : awayTokens(promptTokens, weight);
    return backlog + weight * uncachedTokens(promptTokens, cachedTokens) + decode + away;
  });
}

function awayTokens(promptTokens: number, weight: number): number {
  return Math.min(AWAY_TOKENS, weight * promptTokens);
}
