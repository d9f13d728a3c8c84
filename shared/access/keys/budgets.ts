import type { Clock } from '../../clock/index.ts';
import { BoundedMap } from '../../records/index.ts';
import { type KeyUse, OverBudget } from '../grant.ts';
import type { KeyLimits, KeyRecord } from './key-record.ts';

type Headers = Readonly<Record<string, string>>;

/** Keys with limits whose spending is remembered, and as many without; the one unused for longest leaves first. */
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
  readonly #limited = new BoundedMap<string, Budget>(KEYS_MAX);
  /** Those of keys without limits, apart: they must not displace what a limit counts. */
  readonly #free = new BoundedMap<string, Budget>(KEYS_MAX);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns the budget of a key, which also counts what a key without limits uses. */
  of({ id, limits }: KeyRecord): Budget {
    const [own, other] = hasLimits(limits) ? [this.#limited, this.#free] : [this.#free, this.#limited];
    const known = own.use(id); // this key is now the one used last
    if (known !== undefined) return known;
    const budget = other.get(id) ?? new Budget(this.#clock); // its limits may just have come or gone
    other.delete(id);
    own.set(id, budget);
    return budget;
  }

  /** Returns what a key has used and what is left of its limits. */
  useOf({ id, limits }: KeyRecord): KeyUse {
    const budget = this.#limited.get(id) ?? this.#free.get(id) ?? new Budget(this.#clock);
    return budget.use(limits);
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
  #requestsSoFar = 0;
  #tokensSoFar = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a request. @throws OverBudget */
  take(limits: KeyLimits): void {
    if (hasLimits(limits)) this.#require(limits);
    this.#requestsSoFar++;
  }

  /** Checks that no budget is spent, and counts the request against the budget of requests. @throws OverBudget */
  #require(limits: KeyLimits): void {
    const { requestsPerMinute, tokensPerMinute, tokensPerDay } = limits;
    this.#refill(limits);
    if (tokensPerDay !== undefined && this.#dayTokens >= tokensPerDay) {
      const message = `The key's ${tokensPerDay} tokens of the day are spent`;
      throw new OverBudget(
        'insufficient_quota',
        message,
        DAY_MS - (this.#clock.wallMs() % DAY_MS),
        this.#headers(limits),
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

  /** Counts tokens. Those without a limit a minute must not count against one that is set later. */
  spend(tokens: number, { tokensPerMinute }: KeyLimits): void {
    this.#startDay();
    if (tokensPerMinute !== undefined) this.#tokens.used += tokens;
    this.#dayTokens += tokens;
    this.#tokensSoFar += tokens;
  }

  /** Returns what was used, and what is left of each limit. */
  use(limits: KeyLimits): KeyUse {
    this.#refill(limits);
    const { requestsPerMinute, tokensPerMinute, tokensPerDay } = limits;
    return {
      requests: this.#requestsSoFar,
      tokens: this.#tokensSoFar,
      tokensToday: this.#dayTokens,
      left: {
        ...(requestsPerMinute !== undefined && { requestsPerMinute: rest(requestsPerMinute, this.#requests.used) }),
        ...(tokensPerMinute !== undefined && { tokensPerMinute: rest(tokensPerMinute, this.#tokens.used) }),
        ...(tokensPerDay !== undefined && { tokensPerDay: rest(tokensPerDay, this.#dayTokens) }),
      },
    };
  }

  /** Returns headers with the names that OpenAI's clients know; undefined without limits. */
  headers(limits: KeyLimits): Headers | undefined {
    return hasLimits(limits) ? this.#headers(limits) : undefined;
  }

  #headers(limits: KeyLimits): Headers {
    this.#refill(limits);
    const { requestsPerMinute, tokensPerMinute, tokensPerDay } = limits;
    const headers: Record<string, string> = {};
    if (requestsPerMinute !== undefined) tell(headers, 'requests', requestsPerMinute, this.#requests.used);
    if (tokensPerMinute !== undefined) tell(headers, 'tokens', tokensPerMinute, this.#tokens.used);
    else if (tokensPerDay !== undefined) {
      headers['x-ratelimit-limit-tokens'] = String(tokensPerDay);
      headers['x-ratelimit-remaining-tokens'] = String(rest(tokensPerDay, this.#dayTokens));
      headers['x-ratelimit-reset-tokens'] = span(DAY_MS - (this.#clock.wallMs() % DAY_MS));
    }
    return headers;
  }

  #refill({ requestsPerMinute = 0, tokensPerMinute = 0 }: KeyLimits): void {
    const nowMs = this.#clock.nowMs();
    this.#requests.flow(requestsPerMinute, nowMs);
    this.#tokens.flow(tokensPerMinute, nowMs);
    this.#startDay();
  }

  #startDay(): void {
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
      this.#headers(limits),
    );
  }
}

/** The part of a limit per minute that was used and has not been regained since. */
class Flow {
  used = 0;
  #atMs = 0;

  flow(perMinute: number, nowMs: number): void {
    // What was used without a limit does not count against one that is set later
    if (perMinute === 0) this.used = 0;
    else this.used = Math.max(0, this.used - ((nowMs - this.#atMs) / MINUTE_MS) * perMinute);
    this.#atMs = nowMs;
  }
}

/** Returns the whole units of a limit that are left. */
function rest(limit: number, used: number): number {
  return Math.max(0, Math.floor(limit - used));
}

function msUntil(amount: number, perMinute: number): number {
  return (amount / perMinute) * MINUTE_MS;
}

function tell(headers: Record<string, string>, unit: string, limit: number, used: number): void {
  headers[`x-ratelimit-limit-${unit}`] = String(limit);
  headers[`x-ratelimit-remaining-${unit}`] = String(rest(limit, used));
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
