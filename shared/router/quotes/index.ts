/**
 * @module router/quotes
 * What workers say of themselves to a router that has no index: what a prompt would find there, and a place for it. Both sides.
 */

export {
  type AskedPlace,
  type AskedPrompt,
  type AskMetrics,
  bestQuote,
  CLAIMS_MAX,
  createAskMetrics,
  type RankQuote,
  WorkerAsker,
  type WorkerAskerOptions,
} from './ask-workers.ts';
export {
  type ClaimAnswer,
  decodeQuestion,
  encodeClaimAnswer,
  encodeQuotes,
  PlaceBook,
  type PlaceClaim,
  QUOTE_ENDPOINT,
  type QuotedRank,
} from './claims.ts';
