/**
 * @module router/quotes
 * What workers say of themselves to a router that has no index: what a prompt would find there, and a place for it. Both sides.
 */

export { type AskMetrics, createAskMetrics } from './ask-metrics.ts';
export { type AskedPlace, type AskedPrompt, WorkerAsker, type WorkerAskerOptions } from './ask-workers.ts';
export {
  type ClaimAnswer,
  decodeQuestion,
  encodeClaimAnswer,
  encodeQuotes,
  type PlaceClaim,
  QUOTE_ENDPOINT,
  type QuotedRank,
} from './messages.ts';
export { PlaceBook } from './place-book.ts';
export { bestQuote, CLAIMS_MAX, type RankQuote } from './weigh-quotes.ts';
