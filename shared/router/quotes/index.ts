/**
 * @module router/quotes
 * What workers say of themselves to a router that has no index: what a prompt would find there, and a place for it. Both sides.
 */

export {
  type AskedPlace,
  type AskedPrompt,
  type AskMetrics,
  createAskMetrics,
  WorkerAsker,
  type WorkerAskerOptions,
} from './ask-workers.ts';
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
} from './claims.ts';
export { bestQuote, CLAIMS_MAX, placeOn, type RankQuote, termsOf } from './weigh-quotes.ts';
