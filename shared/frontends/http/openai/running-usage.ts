import type { RequestMeter, RequestOutcome } from '../../../telemetry/index.ts';

/**
 * Listens in on a request's meter for the counts that continuous usage shows before the request has ended. Only put in
 * between when a client asked for them.
 */
export class RunningUsage implements RequestMeter {
  readonly #meter: RequestMeter;
  #promptTokens = 0;
  #cachedTokens: number | undefined;

  constructor(meter: RequestMeter) {
    this.#meter = meter;
  }

  get promptTokenCount(): number {
    return this.#promptTokens;
  }

  get cachedTokenCount(): number | undefined {
    return this.#cachedTokens;
  }

  get ttftMs(): number | undefined {
    return this.#meter.ttftMs;
  }

  promptTokens(count: number): void {
    this.#promptTokens = count;
    this.#meter.promptTokens(count);
  }

  cachedTokens(count: number): void {
    this.#cachedTokens = count;
    this.#meter.cachedTokens(count);
  }

  outputTokens(count: number): void {
    this.#meter.outputTokens(count);
  }

  end(outcome: RequestOutcome): void {
    this.#meter.end(outcome);
  }
}
