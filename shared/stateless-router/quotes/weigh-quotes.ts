import { keyOfText, type RendezvousKey, seedOf, weightOf } from '../../router/index.ts';
import { laterWeight, SHARED_PASS_TOKENS, SHORT_BACKLOG_TOKENS, uncachedTokens } from '../../scheduler/index.ts';
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
/**
 * Factor by which a token that a worker has not cached weighs more for later requests than in the cost model `stator`.
 * Measured with 50 processes and six workloads: with 1, caches hit less often at full load, and first tokens come
 * later. With 3, first tokens come up to 4 % later at load 0.8.
 */
const LATER_FACTOR = 2;
/** Bound of the tokens that the worker that hashing names would compute, if no other is asked. */
const HELD_UNCACHED_TOKENS_MAX = 1500;
/** Weight of a token in the context of running requests, relative to a token that waits for prefill. */
const DECODE_WEIGHT = 0.003;
/** Backlog up to which no claim is refused, because another question takes time, too. */
const CLAIM_SLACK_TOKENS = 1000;

/**
 * Returns the terms on which the worker that hashing names may take a prompt without questions to others. It would
 * compute so little that no other worker is clearly cheaper, and would do so in a pass or two along with its backlog.
 */
export function termsOf({ id, tokens }: Pick<PlacedPrompt, 'id' | 'tokens'>, dpRank?: number): HoldTerms {
  const uncachedTokensMax = 1 + Math.min(HELD_UNCACHED_TOKENS_MAX, tokens);
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
 * hashing names. The request's id draws among equals, so that requests of one instant do not all choose the same one. A
 * pure function of its arguments.
 * @param quotes at least one
 */
export function bestQuote(prompt: PlacedPrompt, quotes: readonly RankQuote[]): BestQuote {
  const costs = costsOf(prompt, quotes);
  const key = keyOfText(prompt.id);
  let best = 0;
  for (let at = 1; at < quotes.length; at++) {
    const more = (costs[at] as number) - (costs[best] as number);
    if (more < 0 || (more === 0 && drawn(key, quotes[at] as RankQuote) > drawn(key, quotes[best] as RankQuote)))
      best = at;
  }
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
  const prefillTokens = quotes.map((quote) => quote.prefillTokens);
  const weight = 1 + LATER_FACTOR * laterWeight({ prefillTokens, count: quotes.length });
  return quotes.map(({ workerId, cachedTokens, prefillTokens, activeBlocks }) => {
    const backlog = prefillTokens === 0 ? 0 : prefillTokens + SHARED_PASS_TOKENS;
    const decode = DECODE_WEIGHT * blockSizeTokens * activeBlocks;
    const away = workerId === homeId ? 0 : awayTokens(promptTokens, weight);
    return backlog + weight * uncachedTokens(promptTokens, cachedTokens) + decode + away;
  });
}

function drawn(key: RendezvousKey, { workerId, dpRank }: RankQuote): number {
  return weightOf(key, seedOf(`${workerId}/${dpRank}`));
}

function awayTokens(promptTokens: number, weight: number): number {
  return Math.min(AWAY_TOKENS, weight * promptTokens);
}
