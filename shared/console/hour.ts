import type { Clock } from '../clock/index.ts';
import { LogHistogram } from './log-histogram.ts';
import type { ConsoleFigures, ConsoleHour } from './wire/fleet.ts';

/** Length of one step of the last hour, in milliseconds. */
export const STEP_MS = 10_000;
/** Steps of an hour. */
export const STEPS = 360;
/** Places of steps: those of the hour, and the present one, which has not ended. */
const PLACES = STEPS + 1;
/** Steps that the present figures are made of: one minute. */
const RECENT_STEPS = 6;
const MS_PER_SECOND = 1000;

/** A request that has ended. Times in milliseconds. */
export interface EndedRequest {
  readonly isFailed: boolean;
  readonly promptTokens: number | undefined;
  readonly cachedTokens: number | undefined;
  readonly outputTokens: number | undefined;
  readonly ttftMs: number | undefined;
  /** Mean time between its output tokens. */
  readonly itlMs: number | undefined;
}

/** Sums of one step. */
class Step {
  /** Steps since the clock's zero; -1 = never used. */
  number = -1;
  requests = 0;
  failed = 0;
  outputTokens = 0;
  promptTokens = 0;
  cachedTokens = 0;
  readonly ttft = new LogHistogram();
  readonly itl = new LogHistogram();

  begin(number: number): void {
    this.number = number;
    this.requests = 0;
    this.failed = 0;
    this.outputTokens = 0;
    this.promptTokens = 0;
    this.cachedTokens = 0;
    this.ttft.clear();
    this.itl.clear();
  }
}

/**
 * Figures of the requests of the last hour, in steps of ten seconds. Nothing runs between two requests: a step begins
 * with the first event in it, and a step without events counts as zero.
 */
export class Hour {
  readonly #clock: Clock;
  readonly #firstNumber: number;
  readonly #steps: Step[] = []; // at most PLACES
  #lastNumber = -1;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#firstNumber = stepNow(clock);
  }

  ended({ isFailed, promptTokens = 0, cachedTokens = 0, ttftMs, itlMs }: EndedRequest): void {
    const step = this.#present();
    step.requests++;
    if (isFailed) step.failed++;
    step.promptTokens += promptTokens;
    step.cachedTokens += cachedTokens;
    if (ttftMs !== undefined) step.ttft.observe(ttftMs);
    if (itlMs !== undefined) step.itl.observe(itlMs);
  }

  /** Whether nothing has happened for an hour. */
  get isOver(): boolean {
    return stepNow(this.#clock) - this.#lastNumber >= STEPS;
  }

  /** Counts output tokens that were made since the last call. */
  produced(tokens: number): void {
    if (tokens > 0) this.#present().outputTokens += tokens;
  }

  /** Returns the figures of the last minute, or of the time since the start if that is shorter. */
  figures(): Omit<ConsoleFigures, 'running'> {
    const now = stepNow(this.#clock);
    const [ttft, itl] = [new LogHistogram(), new LogHistogram()];
    let [requests, failed, tokens, prompt, cached] = [0, 0, 0, 0, 0];
    for (let number = now - RECENT_STEPS + 1; number <= now; number++) {
      const step = this.#at(number);
      if (step === undefined) continue;
      requests += step.requests;
      failed += step.failed;
      tokens += step.outputTokens;
      prompt += step.promptTokens;
      cached += step.cachedTokens;
      ttft.add(step.ttft);
      itl.add(step.itl);
    }
    const seconds = this.#recentSeconds(now);
    return {
      requests_per_second: rounded(requests / seconds),
      tokens_per_second: rounded(tokens / seconds),
      failed_share: requests === 0 ? null : rounded(failed / requests),
      hit_rate: prompt === 0 ? null : rounded(cached / prompt),
      ttft_ms: ttft.quantiles(),
      itl_ms: itl.quantiles(),
    };
  }

  /** Returns the series of the last hour, the oldest step first, without the step that has not ended. */
  series(): Omit<ConsoleHour, 'model' | 'workers'> {
    const now = stepNow(this.#clock);
    const numbers = Array.from({ length: STEPS }, (_, at) => now - STEPS + at).filter(
      (number) => number >= this.#firstNumber,
    );
    const steps = numbers.map((number) => this.#at(number));
    const perSecond = (sum: number | undefined): number => rounded(((sum ?? 0) * MS_PER_SECOND) / STEP_MS);
    const quantile = (of: 'ttft' | 'itl', share: number): (number | null)[] =>
      steps.map((step) => step?.[of].quantile(share) ?? null);
    return {
      step_ms: STEP_MS,
      end_ms: this.#clock.wallMs() - (this.#clock.nowMs() - now * STEP_MS),
      requests_per_second: steps.map((step) => perSecond(step?.requests)),
      failed_per_second: steps.map((step) => perSecond(step?.failed)),
      tokens_per_second: steps.map((step) => perSecond(step?.outputTokens)),
      ttft_p50_ms: quantile('ttft', 0.5),
      ttft_p95_ms: quantile('ttft', 0.95),
      itl_p50_ms: quantile('itl', 0.5),
      itl_p95_ms: quantile('itl', 0.95),
    };
  }

  /** Returns the time that the recent steps cover: the present one counts as far as it has come. */
  #recentSeconds(now: number): number {
    const steps = Math.min(RECENT_STEPS, now - this.#firstNumber + 1);
    const intoMs = this.#clock.nowMs() - now * STEP_MS;
    return Math.max(1, ((steps - 1) * STEP_MS + intoMs) / MS_PER_SECOND);
  }

  #at(number: number): Step | undefined {
    const step = this.#steps[number % PLACES];
    return step?.number === number ? step : undefined;
  }

  #present(): Step {
    const number = stepNow(this.#clock);
    this.#lastNumber = number;
    const at = number % PLACES;
    const step = this.#steps[at] ?? new Step();
    this.#steps[at] = step;
    if (step.number !== number) step.begin(number);
    return step;
  }
}

function stepNow(clock: Clock): number {
  return Math.floor(clock.nowMs() / STEP_MS);
}

function rounded(value: number): number {
  return Number(value.toPrecision(4));
}
