/**
 * @module stateless-router
 * Routing if no router knows the caches: `StatelessRouter` chooses by hashing and asks the workers for quotes, which
 * say how cheap the prompt is there.
 */
export { createAskMetrics, WorkerAsker } from './quotes/ask-workers.ts';
export {
  type ClaimAnswer,
  decodeQuestion,
  encodeClaimAnswer,
  encodeQuotes,
  type HeldPlace,
  type HoldTerms,
  PlaceBook,
  type PlaceClaim,
  QUOTE_ENDPOINT,
  type QuotedRank,
} from './quotes/claims.ts';
export { bestQuote, CLAIMS_MAX, placeOn, type RankQuote, termsOf } from './quotes/weigh-quotes.ts';
export { type AskOptions, StatelessDecider, type StatelessRequest, StatelessRouter } from './stateless-router.ts';
