import { RankFactors, within } from './rank-factors.ts';

/** Decoding of one request, from its first token to its end. */
export interface DecodeSpan {
  readonly rank: number;
  readonly elapsedMs: number;
  /** Time since the request was booked. */
  readonly sinceStartMs: number;
  /** Prompt tokens that the rank computed for other requests in `elapsedMs`. */
  readonly prefilledTokens: number;
  /** Mean number of tokens in the contexts of the rank's requests. */
  readonly contextTokens: number;
}

/** Time of the prefill of one prompt token, until a prefill was seen: 8 billion parameters on an H100. */
const START_MS_PER_TOKEN = 0.0207;
/** Shorter prefills say little about the pace, because the fixed cost of a pass is a large part of them. */
const PREFILL_TOKENS_MIN = 2048;
/** Bounds of the pace: a model of 1 billion parameters on the fastest GPU, and one of 8 billion on a CPU. */
const MS_PER_TOKEN_MIN = 0.0005;
const MS_PER_TOKEN_MAX = 20;
/**
 * Most that one prefill counts, relative to the mean, and the inverse of the least. Of two that end in one pass, the
 * second one seems to take no time, and a rank that stood still must not change the pace for all.
 */
const PREFILL_RATIO_MAX = 4;
/** Most that the time or output of one request counts, relative to the mean: clients may pause for hours. */
const REQUEST_RATIO_MAX = 20;
/** Share of the old value that each new value leaves of a mean. */
const KEPT = 0.98;
/** Outputs with fewer tokens say little about the time of a decode step. */
const OUTPUT_TOKENS_MIN = 8;
/** Share of the time between two tokens that decoding takes at least, however many prefills ran. */
const DECODE_SHARE_MIN = 0.3;
/**
 * Most that the time of one answer counts, relative to the expected one, and the inverse of the least. A client that
 * stops reading for minutes makes only its own request slow. Without a bound, it would change the means for all others.
 */
const ANSWER_RATIO_MAX = 4;
/** Change of a rank's slowness with each value that was seen, as a share of the distance. Prefills vary more. */
const PREFILL_GAIN = 0.01;
const DECODE_GAIN = 0.03;

/**
 * Speeds of the ranks of a pool, learned from first tokens and ends of requests. Bounded: a few numbers for the pool,
 * and one for each rank.
 */
export class RankSpeeds {
  /** Mean number of output tokens of a request. */
  outputTokens = 200;
  /** Mean time from the booking of a request to its first token. */
  ttftMs = 100;
  /** Mean time from the booking of a request to its end. */
  e2eMs = 2000;
  readonly #steps = new StepLine();
  /** Mean of the answers of all ranks, relative to the line: while that adapts, no rank counts as slow for it. */
  #seenMean = 1;
  #msPerToken = START_MS_PER_TOKEN;
  readonly #slowness = new RankFactors();

  /** Mean milliseconds that the prefill of a prompt token takes. */
  get msPerToken(): number {
    return this.#msPerToken;
  }

  /** Duration of a decode step without context. */
  get stepMs(): number {
    return this.#steps.ms;
  }

  /** Time by which each token in the contexts of a rank's requests makes a decode step longer. */
  get stepMsPerToken(): number {
    return this.#steps.msPerToken;
  }

  /**
   * Share of first tokens in the time of requests, 0 to 1. It is the weight of a millisecond of decoding: one percent
   * of the time to the first token is worth one percent of the time of the whole request.
   */
  get firstTokenShare(): number {
    return this.ttftMs / (this.ttftMs + this.e2eMs);
  }

  /** Makes room for rank numbers below `capacity`. */
  reserve(capacity: number): void {
    this.#slowness.reserve(capacity);
  }

  /** Forgets a rank whose number another one will get. */
  forget(rank: number): void {
    this.#slowness.forget(rank);
  }

  /** Factor by which work takes longer on a rank than on average; 1 if it is about the same. By rank number. */
  get slowness(): Float64Array {
    return this.#slowness.factors;
  }

  /** Returns the milliseconds that the prefill of a prompt token takes on a rank. */
  msPerTokenOf(rank: number): number {
    return this.#msPerToken * (this.slowness[rank] ?? 1);
  }

  /** Learns from a prefill that was the oldest of its rank for `elapsedMs` and has ended. Ignores short ones. */
  learnPrefill(rank: number, tokens: number, elapsedMs: number): void {
    if (tokens <= PREFILL_TOKENS_MIN) return;
    const ratio = within(PREFILL_RATIO_MAX, elapsedMs / tokens / this.#msPerToken);
    const seen = ratio * this.#msPerToken;
    this.#slowness.learn(rank, ratio, PREFILL_GAIN);
    const next = KEPT * this.#msPerToken + (1 - KEPT) * seen;
    this.#msPerToken = Math.min(MS_PER_TOKEN_MAX, Math.max(MS_PER_TOKEN_MIN, next));
  }

  /** Learns from the time between the booking of a request and its first token. */
  learnFirstToken(ttftMs: number): void {
    this.ttftMs = meanWith(this.ttftMs, ttftMs);
  }

  /** Learns from a request that has ended. */
  learnEnd(span: DecodeSpan, outputTokens: number): void {
    const { rank, elapsedMs, contextTokens, prefilledTokens } = span;
    this.outputTokens = meanWith(this.outputTokens, outputTokens);
    this.e2eMs = meanWith(this.e2eMs, span.sinceStartMs);
    if (outputTokens < OUTPUT_TOKENS_MIN) return;
    // On a rank of mean speed. Slow ranks have less context, so without their factors the line would have no slope.
    const steps = outputTokens - 1;
    const prefillMs = prefilledTokens * this.#msPerToken;
    const expectedMs = steps * this.#steps.at(contextTokens) + prefillMs;
    const seen = within(ANSWER_RATIO_MAX, elapsedMs / expectedMs);
    this.#slowness.learn(rank, seen / this.#seenMean, DECODE_GAIN);
    this.#seenMean = KEPT * this.#seenMean + (1 - KEPT) * seen;
    const evenMs = (seen * expectedMs) / (this.slowness[rank] ?? 1);
    this.#steps.add(contextTokens, Math.max(DECODE_SHARE_MIN * evenMs, evenMs - prefillMs) / steps);
  }
}

/** Returns the mean of requests after one more. */
function meanWith(mean: number, seen: number): number {
  return KEPT * mean + (1 - KEPT) * Math.min(REQUEST_RATIO_MAX * mean, seen);
}

const START_STEP_MS = 6;
const START_STEP_MS_PER_TOKEN = 4e-5;
/** Context of the larger one of the two steps that are assumed at the start. */
const START_CONTEXT_TOKENS = 400_000;
/** Weight of each of these two, in requests. */
const START_WEIGHT = 5;
const STEP_KEPT = 0.995;
const STEP_MS_MIN = 0.1;
/**
 * Standard deviation of the contexts, in tokens, below which they tell no slope: at the start's slope, steps differ by
 * 0.16 ms over it, which is less than other causes change.
 */
const CONTEXT_DEVIATION_MIN = 4000;

/** Duration of a decode step as a line over the tokens in context: least squares over the latest requests. */
class StepLine {
  ms = START_STEP_MS;
  msPerToken = START_STEP_MS_PER_TOKEN;
  #count = 0;
  #x = 0;
  #xx = 0;
  #y = 0;
  #xy = 0;

  constructor() {
    for (let at = 0; at < START_WEIGHT; at++) {
      this.add(0, START_STEP_MS);
      this.add(START_CONTEXT_TOKENS, START_STEP_MS + START_STEP_MS_PER_TOKEN * START_CONTEXT_TOKENS);
    }
  }

  at(contextTokens: number): number {
    return this.ms + this.msPerToken * contextTokens;
  }

  add(contextTokens: number, stepMs: number): void {
    this.#count = STEP_KEPT * this.#count + 1;
    this.#x = STEP_KEPT * this.#x + contextTokens;
    this.#xx = STEP_KEPT * this.#xx + contextTokens * contextTokens;
    this.#y = STEP_KEPT * this.#y + stepMs;
    this.#xy = STEP_KEPT * this.#xy + contextTokens * stepMs;
    const spread = this.#count * this.#xx - this.#x * this.#x;
    if (spread >= (CONTEXT_DEVIATION_MIN * this.#count) ** 2) {
      this.msPerToken = Math.max(0, (this.#count * this.#xy - this.#x * this.#y) / spread);
    }
    this.ms = Math.max(STEP_MS_MIN, (this.#y - this.msPerToken * this.#x) / this.#count);
  }
}
