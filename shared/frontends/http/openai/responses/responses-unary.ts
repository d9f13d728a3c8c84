import type { ServeError } from '../../../../errors/index.ts';
import { answerError } from '../../answers/answer.ts';
import { writeObject } from '../../answers/written-answer.ts';
import type { InferenceCall } from '../../inference-call.ts';
import type { ItemObserver } from './output-items.ts';
import type { FinalEvent, ResponsesOutlet } from './responses-outlet.ts';

const NOBODY: ItemObserver = Object.freeze({ opened: () => {}, grew: () => {}, closed: () => {} });

/** An answer as one object. */
export class ResponsesUnary implements ResponsesOutlet {
  readonly observer = NOBODY;
  readonly isBegun = false;
  readonly needsItem = true;
  readonly #call: InferenceCall;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(call: InferenceCall, headers: Readonly<Record<string, string>>) {
    this.#call = call;
    this.#headers = headers;
  }

  begin(): void {
    // a unary answer begins when it is complete
  }

  annotate(): void {
    // unary answers have no place for annotations
  }

  finish(_event: FinalEvent, body: object, nvext: Iterable<string>): Promise<void> | undefined {
    return writeObject(this.#call, body, nvext, this.#headers);
  }

  refuse(error: ServeError): void {
    answerError(this.#call.exchange, error, this.#call.deps.settings.overloadStatus);
  }

  abandon(): void {
    // nothing is armed
  }
}
