const START_MS_PER_TOKEN = 0.0207;

const TOKENS_MIN = 2048;

const KEPT = 0.98;

const MS_PER_TOKEN_MIN = 0.005;

const MS_PER_TOKEN_MAX = 0.1;

/** Predicts how long a worker will prefill. */
export interface PrefillDurationModel {
  /**
   * Milliseconds, 0 or more, for one prompt of `uncachedTokens` after `cachedTokens` that are there already; undefined when
   * the model cannot say, and then the prefill counts in full until its first token. Asked once for each request, at its
   * decision. Never throws.
   */
  durationMs(uncachedTokens: number, cachedTokens: number): number | undefined;
}

/**
 * Tokens of the oldest prefill that are left after `elapsedMs` of it (release 1.x): at most all, at least none.
 * @param expectedMs predicted length; NaN = unknown, the prefill does not shrink
 */
export function anchoredRemainder(tokens: number, elapsedMs: number, expectedMs: number): number {
  if (Number.isNaN(expectedMs)) return tokens;
  if (expectedMs <= 0) return 0;
  const left = 1 - elapsedMs / expectedMs;
  return Math.ceil(tokens * Math.min(1, Math.max(0, left)));
}

/**
 * Active prefill tokens of a rank whose prefills all have predicted lengths (newest release): what the oldest does beyond
 * its own tokens counts against those behind it.
 */
export function spilledRemainder(sum: number, oldestTokens: number, elapsedMs: number, expectedMs: number): number {
  if (expectedMs <= 0) return Math.max(0, sum - oldestTokens);
  return Math.max(0, sum - Math.floor((oldestTokens * Math.max(0, elapsedMs)) / expectedMs));
}

/** Milliseconds that a prompt token takes to prefill, learned from requests as they give their first token. */
export class PrefillPace {
  #msPerToken = START_MS_PER_TOKEN;

  get msPerToken(): number {
    return this.#msPerToken;
  }

  /** A prefill that was the oldest of its worker for `elapsedMs` has ended. Short ones say little and are left out. */
  learn(tokens: number, elapsedMs: number): void {
    if (tokens <= TOKENS_MIN) return;
    const seen = Math.min(MS_PER_TOKEN_MAX, Math.max(MS_PER_TOKEN_MIN, elapsedMs / tokens));
    this.#msPerToken = KEPT * this.#msPerToken + (1 - KEPT) * seen;
  }
}
