import type { ServeError } from '../../errors/index.ts';
import type { GenerationSink, ServingWorkers, TextDelta, TextFinish, Usage } from '../../protocol/generation/index.ts';
import type { Abandonable, InferenceBooks } from './inference-books.ts';

/** A sink of which a dialect says only what has a place in it: everything else is left out. */
export abstract class PartialSink implements GenerationSink {
  abstract end(usage: Usage, finished: boolean): void;
  abstract fail(error: ServeError): void;
  abstract isBlocked(): boolean;
  abstract onUnblocked(callback: () => void): void;

  text(_choice: number, _text: string, _tokenCount: number): void {}

  delta({ choice, text }: TextDelta): void {
    this.text(choice, text, 0);
  }

  finish({ choice, text }: TextFinish): void {
    this.text(choice, text, 0);
  }

  reasoning(_choice: number, _text: string): void {}
  toolCall(_choice: number, _index: number, _id: string, _name: string): void {}
  toolArguments(_choice: number, _index: number, _text: string): void {}
  annotation(_name: string, _value: string): void {}
  worker(_workers: ServingWorkers): void {}
  engineData(_data: Readonly<Record<string, unknown>>): void {}
  body(_body: unknown): void {}
}

/** Writes the answer to one inference request: how it ends, in any way but once, and what its reader has to do with that. */
export abstract class DialectSink<Books extends InferenceBooks = InferenceBooks>
  extends PartialSink
  implements Abandonable
{
  protected readonly inference: Books;
  #isOver = false;

  constructor(inference: Books) {
    super();
    this.inference = inference;
  }

  /** Nothing is written any more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  fail(error: ServeError): void {
    if (this.close()) this.tell(error);
  }

  abandon(): void {
    this.close();
  }

  isBlocked(): boolean {
    return this.inference.exchange.sink.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.inference.exchange.sink.onUnblocked(callback);
  }

  /** Tells the client of a failure, in its dialect. */
  protected abstract tell(error: ServeError): void;

  /** From here on nothing more is taken. False when that was so already. */
  protected close(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    return true;
  }
}
