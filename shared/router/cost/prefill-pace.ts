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

const START_MS_PER_TOKEN = 0.0207;
const TOKENS_MIN = 2048;
const KEPT = 0.98;
const MS_PER_TOKEN_MIN = 0.005;
const MS_PER_TOKEN_MAX = 0.1;
