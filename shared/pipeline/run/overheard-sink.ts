import type { ServeError } from '../../errors/index.ts';
import type { GenerationSink, ServingWorkers, TextDelta, TextFinish, Usage } from '../../protocol/index.ts';

/** What an answer said, as its conversation goes on with it. */
export interface Heard {
  readonly text: string;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[];
}

/** Characters of an answer that are kept; a longer one is not overheard. */
const HEARD_CHARS_MAX = 1 << 20;

/** Hands on what a sink is told, and keeps what its first choice says. */
export class OverheardSink implements GenerationSink {
  readonly #sink: GenerationSink;
  /** Told after the end of an answer that ended as its model meant it to. */
  onEnd: (heard: Heard) => void = () => {};
  readonly #calls: { readonly id: string; readonly name: string; arguments: string }[] = [];
  #text = '';
  #chars = 0;
  #isWhole = false;

  constructor(sink: GenerationSink) {
    this.#sink = sink;
  }

  text(choice: number, text: string, tokenCount: number): void {
    this.#hear(choice, text);
    this.#sink.text(choice, text, tokenCount);
  }

  delta(delta: TextDelta): void {
    this.#hear(delta.choice, delta.text);
    this.#sink.delta(delta);
  }

  finish(finish: TextFinish): void {
    this.#hear(finish.choice, finish.text);
    if (finish.choice === 0) this.#isWhole = finish.reason === 'stop' || finish.reason === 'tool_calls';
    this.#sink.finish(finish);
  }

  reasoning(choice: number, text: string): void {
    this.#sink.reasoning(choice, text); // most templates leave it out of later turns, as most clients do
  }

  toolCall(choice: number, index: number, id: string, name: string): void {
    if (choice === 0) this.#calls[index] = { id, name, arguments: '' };
    this.#sink.toolCall(choice, index, id, name);
  }

  toolArguments(choice: number, index: number, text: string): void {
    const call = choice === 0 ? this.#calls[index] : undefined;
    if (call !== undefined && this.#fits(text)) call.arguments += text;
    this.#sink.toolArguments(choice, index, text);
  }

  annotation(name: string, value: string): void {
    this.#sink.annotation(name, value);
  }

  worker(workers: ServingWorkers): void {
    this.#sink.worker(workers);
  }

  routed(workers: ServingWorkers, tokenIds: readonly number[]): void {
    this.#sink.routed(workers, tokenIds);
  }

  engineData(data: Readonly<Record<string, unknown>>): void {
    this.#sink.engineData(data);
  }

  body(body: unknown): void {
    this.#sink.body(body);
  }

  end(usage: Usage, finished: boolean): void {
    this.#sink.end(usage, finished);
    if (finished && this.#isWhole && this.#chars <= HEARD_CHARS_MAX) {
      this.onEnd({ text: this.#text, calls: this.#calls });
    }
  }

  fail(error: ServeError): void {
    this.#sink.fail(error);
  }

  isBlocked(): boolean {
    return this.#sink.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.#sink.onUnblocked(callback);
  }

  #hear(choice: number, text: string): void {
    if (choice === 0 && this.#fits(text)) this.#text += text;
  }

  #fits(text: string): boolean {
    this.#chars += text.length;
    return this.#chars <= HEARD_CHARS_MAX;
  }
}
