import { overLimit, type ServeError, toServeError } from '../../errors/index.ts';
import {
  ForwardingSink,
  type GenerationSink,
  logprobsMemory,
  type TextDelta,
  type TextFinish,
  textMemory,
  valueMemory,
} from '../../protocol/index.ts';
import type { ByteBudget } from './deps.ts';

const MEBIBYTE = 1024 * 1024;
/** Bytes that an answer takes from the room of all answers at a time, so that not every token asks for room. */
const BLOCK_BYTES = 16 * 1024;

/** Memory of one answer until it is whole: within a limit of its own, and within the room of all answers. */
export class AnswerRoom {
  readonly #limitBytes: number;
  readonly #budget: ByteBudget;
  #usedBytes = 0;
  #takenBytes = 0;
  #isReleased = false;

  /** @param limitBytes size of the largest answer (`STATOR_HTTP_ANSWER_LIMIT_MB`) */
  constructor(limitBytes: number, budget: ByteBudget) {
    this.#limitBytes = limitBytes;
    this.#budget = budget;
  }

  /** Bytes that the answer has taken so far. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Whether nothing was taken yet. */
  get isEmpty(): boolean {
    return this.#usedBytes === 0;
  }

  /**
   * Takes room for `bytes` more of the answer.
   * @throws ServeError `invalid_value` if the answer is too large, `server_overloaded` if all answers together are
   */
  take(bytes: number): void {
    if (this.#isReleased) return; // what comes after the end is not kept
    this.#usedBytes += bytes;
    if (this.#usedBytes > this.#takenBytes) this.#takeBlocks();
  }

  /** Gives everything back. */
  release(): void {
    if (this.#takenBytes > 0) this.#budget.give(this.#takenBytes);
    this.#takenBytes = 0;
    this.#isReleased = true;
  }

  #takeBlocks(): void {
    if (this.#usedBytes > this.#limitBytes) throw answerTooLarge(this.#limitBytes);
    const bytes = Math.ceil((this.#usedBytes - this.#takenBytes) / BLOCK_BYTES) * BLOCK_BYTES;
    this.#budget.take(bytes);
    this.#takenBytes += bytes;
  }
}

/** Not a failure of the server: the same request would fail again, so no client should retry it. */
function answerTooLarge(limitBytes: number): Error {
  const limitMb = limitBytes / MEBIBYTE;
  return overLimit(
    'answer_bytes',
    `The answer takes more than the ${limitMb} MB that an answer may take until it is whole (STATOR_HTTP_ANSWER_LIMIT_MB): ` +
      'ask for less with `n`, `max_tokens` or `top_logprobs`, or stream it',
    { param: 'max_tokens' },
  );
}

/** The request whose answer is kept. */
interface KeepingInference {
  readonly room: AnswerRoom;
  /** Ends work and response with a failure. */
  breakOff(error: ServeError): void;
}

/**
 * Counts what an answer keeps until it is whole against the answer's room, and breaks the request off when there is no
 * more room. Annotations and workers are few and small: they are not counted.
 */
export class KeptSink extends ForwardingSink {
  readonly #inference: KeepingInference;

  constructor(inference: KeepingInference, sink: GenerationSink) {
    super(sink);
    this.#inference = inference;
  }

  override text(choice: number, text: string, tokenCount: number): void {
    if (this.#fits(textMemory(text))) this.sink.text(choice, text, tokenCount);
  }

  override delta(delta: TextDelta): void {
    if (this.#fits(deltaMemory(delta))) this.sink.delta(delta);
  }

  override finish(finish: TextFinish): void {
    if (this.#fits(deltaMemory(finish))) this.sink.finish(finish);
  }

  override reasoning(choice: number, text: string): void {
    if (this.#fits(textMemory(text))) this.sink.reasoning(choice, text);
  }

  override toolCall(choice: number, index: number, id: string, name: string): void {
    if (this.#fits(textMemory(name))) this.sink.toolCall(choice, index, id, name);
  }

  override toolArguments(choice: number, index: number, text: string): void {
    if (this.#fits(textMemory(text))) this.sink.toolArguments(choice, index, text);
  }

  override engineData(data: Readonly<Record<string, unknown>>): void {
    if (this.#fits(valueMemory(data))) this.sink.engineData(data);
  }

  override body(body: unknown): void {
    if (this.#fits(valueMemory(body))) this.sink.body(body);
  }

  #fits(bytes: number): boolean {
    try {
      this.#inference.room.take(bytes);
      return true;
    } catch (thrown) {
      this.#inference.breakOff(toServeError(thrown));
      return false;
    }
  }
}

function deltaMemory({ text, logprobs }: TextDelta): number {
  return textMemory(text) + (logprobs === undefined ? 0 : logprobsMemory(logprobs));
}
