import {
  type CompletionUsage,
  estimatePromptTokens,
  type GenerationRequest,
  type Usage,
} from '../../protocol/index.ts';
import type { RequestMeter } from '../../telemetry/index.ts';

/** Counts of an answer that the frontend itself has made. */
interface OwnCounts {
  /** Tokens of all choices. */
  readonly counted: number;
  /** Whether that count is final, even if the worker reports another. */
  readonly isCountedHere: boolean;
  /** Tokens of the worker's own bodies, estimated. */
  readonly bodyTokens: number;
  /** Undefined if the frontend does not split reasoning off. */
  readonly reasoningTokens: number | undefined;
}

/** The usage of one request: the worker's report, and the frontend's own count if the worker reports none. */
export class AnswerUsage {
  readonly #meter: RequestMeter;
  /** Tokens of the prompt as counted by the frontend; 0 = not counted. */
  readonly #promptTokens: number;
  /** Estimated tokens of a prompt that the frontend has not counted. */
  readonly #promptEstimate: number;
  readonly #hidesCache: boolean;
  #reported: CompletionUsage | undefined;
  #isCarriedOn = false;

  constructor(request: GenerationRequest, promptTokens: number, meter: RequestMeter) {
    this.#meter = meter;
    this.#promptTokens = promptTokens;
    this.#promptEstimate = promptTokens > 0 ? 0 : estimatePromptTokens(request.prompt);
    if (this.#promptEstimate > 0) meter.promptEstimate(this.#promptEstimate);
    this.#hidesCache = request.hidesCache === true;
  }

  /** Whether a worker has reported usage. */
  get isReported(): boolean {
    return this.#reported !== undefined;
  }

  /** Tokens of the prompt as a worker has reported them; undefined if none has. */
  get reportedPromptTokens(): number | undefined {
    return this.#reported?.prompt_tokens || undefined;
  }

  /** Takes the usage that a worker reports. The first report of cached tokens holds. */
  note(usage: CompletionUsage): void {
    const before = this.#reported;
    this.#reported =
      before?.prompt_tokens_details == null ? usage : { ...usage, prompt_tokens_details: before.prompt_tokens_details };
    const cached = usage.prompt_tokens_details?.cached_tokens;
    if (before === undefined && cached !== undefined) this.#meter.cachedTokens(cached);
  }

  /** Notes that another worker continues from the tokens so far, whose prompt is longer than the client's. */
  carriedOn(): void {
    this.#isCarriedOn = true;
  }

  /** Returns the usage for the client. */
  of({ counted, isCountedHere, bodyTokens, reasoningTokens: ownReasoning }: OwnCounts): Usage {
    const worker = this.#reported;
    const promptTokens = this.#promptTokensShown();
    const cached = worker?.prompt_tokens_details?.cached_tokens;
    const reasoningTokens = ownReasoning ?? worker?.completion_tokens_details?.reasoning_tokens;
    return {
      promptTokens,
      completionTokens: isCountedHere ? counted : worker?.completion_tokens || counted + bodyTokens,
      ...(cached === undefined ? {} : { cachedTokens: Math.min(cached, promptTokens) }),
      ...(this.#hidesCache ? { hidesCache: true } : {}),
      ...(reasoningTokens === undefined ? {} : { reasoningTokens }),
    };
  }

  /**
   * Returns the worker's count of the prompt, because the worker may have made more tokens of a picture than the prompt
   * shows. If another worker has continued, or none has reported a count, returns the frontend's own count, or
   * otherwise its estimate.
   */
  #promptTokensShown(): number {
    const reported = this.#reported?.prompt_tokens ?? 0;
    const isOwn = this.#isCarriedOn && this.#promptTokens > 0;
    return reported > 0 && !isOwn ? reported : this.#promptTokens || this.#promptEstimate;
  }
}
