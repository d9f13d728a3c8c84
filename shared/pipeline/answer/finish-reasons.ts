import type { Span } from '../../telemetry/index.ts';

/** Attribute of spans for the finish reasons of choices. */
const FINISH_REASONS = 'gen_ai.response.finish_reasons';

/** Collects the finish reasons of a request's choices for its span. */
export class FinishReasons {
  readonly #span: Span | undefined;
  /** Reasons by the index of their choice. */
  readonly #reasons: (string | undefined)[] = [];

  /** @param span that of the request; undefined if no spans are made */
  constructor(span: Span | undefined) {
    this.#span = span;
  }

  /** Notes the reason of a choice; a value that is not text is ignored. */
  note(index: number, reason: unknown): void {
    if (this.#span !== undefined && typeof reason === 'string') this.#reasons[index] = reason;
  }

  /** Adds the reasons in the order of the choices, after those of the batch's prompts that have ended before. */
  tell(): void {
    if (this.#span === undefined || this.#reasons.length === 0) return;
    const before = this.#span.attributes[FINISH_REASONS];
    const reasons = this.#reasons.filter((reason) => reason !== undefined);
    this.#span.set({ [FINISH_REASONS]: Array.isArray(before) ? [...before, ...reasons] : reasons });
  }
}
