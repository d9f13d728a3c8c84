import type { GenerationRequest, Usage } from '../../../protocol/index.ts';
import type { RequestMeter, RequestOutcome, WorkerLabels } from '../../../telemetry/index.ts';

/**
 * Forwards to a request's meter, and keeps the counts that continuous usage shows before the request has ended. Used
 * only if a client asks for such usage.
 */
export class RunningUsage implements RequestMeter {
  readonly #meter: RequestMeter;
  #promptTokens = 0;
  #completionTokens = 0;
  readonly #hidesCache: boolean;
  #cachedTokens: number | undefined;

  constructor(meter: RequestMeter, { hidesCache = false }: Pick<GenerationRequest, 'hidesCache'>) {
    this.#meter = meter;
    this.#hidesCache = hidesCache;
  }

  /** Usage so far. The pipeline counts an output before it shows it, so this includes the current chunk. */
  get usage(): Usage {
    return {
      promptTokens: this.#promptTokens,
      completionTokens: this.#completionTokens,
      ...(this.#cachedTokens === undefined ? {} : { cachedTokens: this.#cachedTokens }),
      ...(this.#hidesCache ? { hidesCache: true } : {}),
    };
  }

  get ttftMs(): number | undefined {
    return this.#meter.ttftMs;
  }

  get workerId(): string | undefined {
    return this.#meter.workerId;
  }

  get moves(): number {
    return this.#meter.moves;
  }

  promptTokens(count: number): void {
    this.#promptTokens = count;
    this.#meter.promptTokens(count);
  }

  promptEstimate(count: number): void {
    this.#promptTokens ||= count;
    this.#meter.promptEstimate(count);
  }

  cachedTokens(count: number): void {
    this.#cachedTokens = count;
    this.#meter.cachedTokens(count);
  }

  servedBy(prefill: WorkerLabels, decode: WorkerLabels): void {
    this.#meter.servedBy(prefill, decode);
  }

  moved(): void {
    this.#meter.moved();
  }

  outputTokens(count: number): void {
    this.#completionTokens += count;
    this.#meter.outputTokens(count);
  }

  piece(): void {
    this.#completionTokens++; // until the worker reports their number
    this.#meter.piece();
  }

  piecesHold(tokens: number): void {
    this.#completionTokens = tokens;
    this.#meter.piecesHold(tokens);
  }

  end(outcome: RequestOutcome): void {
    this.#meter.end(outcome);
  }
}
