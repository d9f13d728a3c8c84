import type { Clock } from '../../clock/index.ts';
import { BoundedMap } from '../../records/index.ts';
import { OverBudget } from '../grant.ts';
import type { KeyLimits, KeyRecord } from './key-record.ts';

type Headers = Readonly<Record<string, string>>;

/** Number of keys whose spending is remembered; the one unused for longest leaves first. */
const KEYS_MAX = 10_000;
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/**
 * Budgets of keys, as this process counts them: each frontend counts for itself. A request counts when it comes, tokens
 * count when they have been used. So requests under way together may spend more than is left; later requests wait for
 * that.
 */
export class KeyBudgets {
  readonly #clock: Clock;
  readonly #budgets = new BoundedMap<string, Budget>(KEYS_MAX);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns the budget of a key; undefined for keys without limits, which cost nothing here. */
  of({ id, limits }: KeyRecord): Budget | undefined {
    if (!hasLimits(limits)) return undefined;
    const budget = this.#budgets.get(id) ?? new Budget(this.#clock);
    this.#budgets.set(id, budget); // this key is now the one used last
    return budget;
  }
}

function hasLimits({ requestsPerMinute, tokensPerMinute, tokensPerDay }: KeyLimits): boolean {
  return requestsPerMinute !== undefined || tokensPerMinute !== undefined || tokensPerDay !== undefined;
}

/** Spending of one key. Its limits may change between two requests; what was spent stays spent. */
export class Budget {
  readonly #clock: Clock;
  readonly #requests = new Flow();
  readonly #tokens = new Flow();
  #day = 0;
  #dayTokens = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a request. @throws OverBudget */
  take(limits: KeyLimits): void {
    const { requestsPerMinute, tokensPerMinute, tokensPerDay } = limits;
    this.#refill(limits);
    if (tokensPerDay !== undefined && this.#dayTokens >= tokensPerDay) {
      const message = `The key's ${tokensPerDay} tokens of the day are spent`;
      throw new OverBudget(
        'insufficient_quota',
        message,
        DAY_MS - (this.#clock.wallMs() % DAY_MS),
        this.headers(limits),
      );
    }
    if (tokensPerMinute !== undefined && this.#tokens.used >= tokensPerMinute) {
      const waitMs = msUntil(this.#tokens.used - tokensPerMinute + 1, tokensPerMinute);
      throw this.#tooFast(`${tokensPerMinute} tokens a minute`, waitMs, limits);
    }
    if (requestsPerMinute === undefined) return;
    if (this.#requests.used + 1 > requestsPerMinute) {
      const waitMs = msUntil(this.#requests.used + 1 - requestsPerMinute, requestsPerMinute);
      throw this.#tooFast(`${requestsPerMinute} requests a minute`, waitMs, limits);
    }
    this.#requests.used++;
  }

  spend(tokens: number): void {
    this.#tokens.used += tokens;
    this.#dayTokens += tokens;
  }

  /** Returns headers with the names that OpenAI's clients know. */
  headers(limits: KeyLimits): Headers {
    this.#refill(limits);
    const { requestsPerMinute, tokensPerMinute, tokensPerDay } = limits;
    const headers: Record<string, string> = {};
    if (requestsPerMinute !== undefined) tell(headers, 'requests', requestsPerMinute, this.#requests.used);
    if (tokensPerMinute !== undefined) tell(headers, 'tokens', tokensPerMinute, this.#tokens.used);
    else if (tokensPerDay !== undefined) {
      headers['x-ratelimit-limit-tokens'] = String(tokensPerDay);
      headers['x-ratelimit-remaining-tokens'] = String(Math.max(0, tokensPerDay - this.#dayTokens));
      headers['x-ratelimit-reset-tokens'] = span(DAY_MS - (this.#clock.wallMs() % DAY_MS));
    }
    return headers;
  }

  #refill({ requestsPerMinute = 0, tokensPerMinute = 0 }: KeyLimits): void {
    const nowMs = this.#clock.nowMs();
    this.#requests.flow(requestsPerMinute, nowMs);
    this.#tokens.flow(tokensPerMinute, nowMs);
    const day = Math.floor(this.#clock.wallMs() / DAY_MS);
    if (day === this.#day) return;
    this.#day = day;
    this.#dayTokens = 0;
  }

  #tooFast(limit: string, waitMs: number, limits: KeyLimits): OverBudget {
    return new OverBudget(
      'rate_limit_exceeded',
      `The key's limit of ${limit} is reached`,
      waitMs,
      this.headers(limits),
    );
  }
}

/** The part of a limit per minute that was used and has not been regained since. */
class Flow {
  used = 0;
  #atMs = 0;

  flow(perMinute: number, nowMs: number): void {
    this.used = Math.max(0, this.used - ((nowMs - this.#atMs) / MINUTE_MS) * perMinute);
    this.#atMs = nowMs;
  }
}

function msUntil(amount: number, perMinute: number): number {
  return (amount / perMinute) * MINUTE_MS;
}

function tell(headers: Record<string, string>, unit: string, limit: number, used: number): void {
  headers[`x-ratelimit-limit-${unit}`] = String(limit);
  headers[`x-ratelimit-remaining-${unit}`] = String(Math.max(0, Math.floor(limit - used)));
  headers[`x-ratelimit-reset-${unit}`] = span(msUntil(used, limit));
}

/** Formats `850ms`, `12s`, `6m0s`, `3h0m0s`, as Go writes a duration, because this header does. */
function span(ms: number): string {
  if (ms < 1000) return `${Math.ceil(ms)}ms`;
  const seconds = Math.ceil(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  if (minutes === 0) return `${seconds}s`;
  const hours = Math.floor(minutes / 60);
  const tail = `${minutes % 60}m${seconds % 60}s`;
  return hours === 0 ? tail : `${hours}h${tail}`;
}
