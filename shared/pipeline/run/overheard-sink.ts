import { ForwardingSink, type TextDelta, type TextFinish, type Usage } from '../../protocol/index.ts';

/** An answer as the next turn of its conversation repeats it. */
export interface Heard {
  readonly text: string;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[];
}

/** Characters of an answer that are kept. A longer answer is not reported. */
const HEARD_CHARS_MAX = 1 << 20;

/**
 * Keeps text and tool calls of an answer's first choice while it forwards the answer. It does not keep reasoning,
 * because most templates and most clients leave that out of later turns.
 */
export class OverheardSink extends ForwardingSink {
  /** Called after the end of an answer that its model ended by itself. */
  onEnd: (heard: Heard) => void = () => {};
  readonly #calls: { readonly id: string; readonly name: string; arguments: string }[] = [];
  #text = '';
  #chars = 0;
  #isWhole = false;

  override text(choice: number, text: string, tokenCount: number): void {
    this.#hear(choice, text);
    this.sink.text(choice, text, tokenCount);
  }

  override delta(delta: TextDelta): void {
    this.#hear(delta.choice, delta.text);
    this.sink.delta(delta);
  }

  override finish(finish: TextFinish): void {
    this.#hear(finish.choice, finish.text);
    if (finish.choice === 0) this.#isWhole = finish.reason === 'stop' || finish.reason === 'tool_calls';
    this.sink.finish(finish);
  }

  override toolCall(choice: number, index: number, id: string, name: string): void {
    if (choice === 0) this.#calls[index] = { id, name, arguments: '' };
    this.sink.toolCall(choice, index, id, name);
  }

  override toolArguments(choice: number, index: number, text: string): void {
    const call = choice === 0 ? this.#calls[index] : undefined;
    if (call !== undefined && this.#fits(text)) call.arguments += text;
    this.sink.toolArguments(choice, index, text);
  }

  override end(usage: Usage, finished: boolean): void {
    this.sink.end(usage, finished);
    if (finished && this.#isWhole && this.#chars <= HEARD_CHARS_MAX) {
      this.onEnd({ text: this.#text, calls: this.#calls });
    }
  }

  #hear(choice: number, text: string): void {
    if (choice === 0 && this.#fits(text)) this.#text += text;
  }

  #fits(text: string): boolean {
    this.#chars += text.length;
    return this.#chars <= HEARD_CHARS_MAX;
  }
}
