import type { FinishReason, GenerationSink } from '../../../protocol/generation/index.ts';
import { isRecord } from '../../../records/index.ts';
import { CallOrder } from './call-order.ts';

type Body = Readonly<Record<string, unknown>>;

const FINISH_REASONS: ReadonlySet<unknown> = new Set<FinishReason>(['stop', 'length', 'content_filter', 'tool_calls']);

/**
 * Turns the chat chunks, or the whole chat object, of a worker that takes bodies untouched into events, for dialects whose
 * answers have another shape. One for each request: it remembers which calls were told, and tells one after the other.
 */
export class ChatBodyReader {
  readonly #sink: Pick<GenerationSink, 'text' | 'event'>;
  readonly #calls: CallOrder;

  constructor(sink: Pick<GenerationSink, 'text' | 'event'>) {
    this.#sink = sink;
    this.#calls = new CallOrder((event) => sink.event(event));
  }

  /** The worker is done: tells what was held back. */
  end(): void {
    this.#calls.flush();
  }

  /** Anything that is not a chat body says nothing. */
  read(body: unknown): void {
    if (!isRecord(body) || !Array.isArray(body.choices)) return;
    for (const [at, choice] of body.choices.entries()) {
      if (isRecord(choice)) this.#readChoice(choice, typeof choice.index === 'number' ? choice.index : at);
    }
  }

  #readChoice(choice: Body, index: number): void {
    const said = isRecord(choice.delta) ? choice.delta : choice.message;
    if (isRecord(said)) this.#readMessage(said, index);
    const { finish_reason: reason, stop_reason: stopReason } = choice;
    if (!FINISH_REASONS.has(reason)) return;
    this.#calls.flush();
    this.#sink.event({
      kind: 'finish',
      choice: index,
      text: '',
      tokenIds: [],
      reason: reason as FinishReason,
      // Not OpenAI's, but what engines say of the stop string or token that they found.
      ...(typeof stopReason === 'string' || typeof stopReason === 'number' ? { stopReason } : {}),
    });
  }

  #readMessage(said: Body, choice: number): void {
    const reasoning = said.reasoning_content ?? said.reasoning;
    if (typeof reasoning === 'string' && reasoning !== '') {
      this.#calls.flush();
      this.#sink.event({ kind: 'reasoning', choice, text: reasoning });
    }
    if (typeof said.content === 'string' && said.content !== '') {
      this.#calls.flush();
      this.#sink.text(choice, said.content, 0);
    }
    if (!Array.isArray(said.tool_calls)) return;
    for (const [at, call] of said.tool_calls.entries()) if (isRecord(call)) this.#readCall(call, choice, at);
  }

  #readCall(call: Body, choice: number, at: number): void {
    const index = typeof call.index === 'number' ? call.index : at;
    const called = isRecord(call.function) ? call.function : {};
    if (!this.#calls.knows(choice, index) && typeof called.name === 'string' && called.name !== '') {
      // some servers say id and name again with every piece
      this.#calls.begin(choice, index, typeof call.id === 'string' ? call.id : `call_${index}`, called.name);
    }
    const text = called.arguments;
    if (typeof text === 'string' && text !== '') this.#calls.grow(choice, index, text);
  }
}
