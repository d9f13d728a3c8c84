import type { ServeError } from '../../../../errors/index.ts';
import { answerError } from '../../answers/answer.ts';
import { writeObject } from '../../answers/written-answer.ts';
import type { InferenceCall } from '../../inference-call.ts';
import type { ItemObserver } from './output-items.ts';

/** How an answer ends. */
export type FinalEvent = 'response.completed' | 'response.incomplete' | 'response.failed';

/** Where one answer goes: events of a stream, or one object. All texts are JSON. */
export interface ResponsesOutlet {
  /** Hears of the items. */
  readonly observer: ItemObserver;
  /** The client has been told of the response: a failure must be told by it too. */
  readonly isBegun: boolean;
  /** An answer without a word still has an empty message. */
  readonly needsItem: boolean;
  begin(body: string): void;
  annotate(frame: string): void;
  /** @returns as `writeObject` */
  finish(event: FinalEvent, body: object, nvext: Iterable<string>): Promise<void> | undefined;
  /** Ends an answer that has not begun with a status. */
  refuse(error: ServeError): void;
  abandon(): void;
}

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
