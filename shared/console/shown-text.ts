import {
  ForwardingSink,
  type GenerationRequest,
  type GenerationSink,
  type TextDelta,
  type TextFinish,
} from '../protocol/index.ts';
import { isRecord } from '../records/index.ts';
import { copyOf, promptOf, type TextRoom, takeFrom } from './shown-prompt.ts';
import type { ConsoleText } from './wire/requests.ts';

/** Characters of the answers of one request that are kept, all choices together. */
export const ANSWER_MAX = 8192;
/** Characters that an answer or a call of a tool counts for besides its text, so that their number has a bound, too. */
const PART_CHARACTERS = 16;
/** Characters after which the answers are copied: each piece that a text grows by takes up to 60 bytes until then. */
const COPY_EVERY = 256;

interface ShownCall {
  name: string;
  arguments: string;
}

interface ShownAnswer {
  text: string;
  reasoning: string;
  readonly calls: Map<number, ShownCall>; // bounded by the room
}

/** The beginning of the answers to a request, and the latest part of its prompt. */
export class ShownText {
  readonly #prompt: ReturnType<typeof promptOf>;
  readonly #room: TextRoom = { left: ANSWER_MAX, isCut: false };
  readonly #answers = new Map<number, ShownAnswer>(); // bounded by the room
  /** Room that was left when the answers were copied last. */
  #leftAtCopy = ANSWER_MAX;
  /** Prompts of the request; only the first one is shown. */
  prompts = 1;

  constructor(request: Pick<GenerationRequest, 'prompt' | 'body'>) {
    this.#prompt = promptOf(request);
  }

  text(choice: number, text: string): void {
    const answer = this.#at(choice);
    if (answer !== undefined) answer.text += takeFrom(this.#room, text);
    this.#copyAtTimes();
  }

  reasoning(choice: number, text: string): void {
    const answer = this.#at(choice);
    if (answer !== undefined) answer.reasoning += takeFrom(this.#room, text);
    this.#copyAtTimes();
  }

  toolCall(choice: number, index: number, name: string): void {
    const calls = this.#at(choice)?.calls;
    if (calls !== undefined && this.#takePart()) {
      calls.set(index, { name: takeFrom(this.#room, name), arguments: '' });
    }
  }

  toolArguments(choice: number, index: number, text: string): void {
    const call = this.#at(choice)?.calls.get(index);
    if (call !== undefined) call.arguments += takeFrom(this.#room, text);
    this.#copyAtTimes();
  }

  /** Takes the text of a chunk or an object in the shape of OpenAI's API. */
  body(body: unknown): void {
    if (!isRecord(body) || !Array.isArray(body.choices)) return;
    for (const choice of body.choices.filter(isRecord)) {
      const index = typeof choice.index === 'number' ? choice.index : 0;
      const { content, reasoning_content: reasoning } = isRecord(choice.delta)
        ? choice.delta
        : isRecord(choice.message)
          ? choice.message
          : { content: choice.text, reasoning_content: undefined };
      if (typeof reasoning === 'string') this.reasoning(index, reasoning);
      if (typeof content === 'string') this.text(index, content);
    }
  }

  /** Returns the texts as viewers get them. */
  shown(): ConsoleText {
    const { parts, leftOut } = this.#prompt;
    const answers = [...this.#answers].map(([choice, { text, reasoning, calls }]) => ({
      choice,
      text,
      reasoning,
      calls: [...calls.values()].map((call) => ({ ...call })),
    }));
    return { prompts: this.prompts, prompt: parts, left_out: leftOut, answers, is_cut: this.#room.isCut };
  }

  #at(choice: number): ShownAnswer | undefined {
    const known = this.#answers.get(choice);
    if (known !== undefined || !this.#takePart()) return known;
    const answer = { text: '', reasoning: '', calls: new Map<number, ShownCall>() };
    this.#answers.set(choice, answer);
    return answer;
  }

  /** Copies the answers if they have grown by many pieces, each of which would stay in memory with its text. */
  #copyAtTimes(): void {
    if (this.#leftAtCopy - this.#room.left < COPY_EVERY) return;
    this.#leftAtCopy = this.#room.left;
    for (const answer of this.#answers.values()) {
      answer.text = copyOf(answer.text);
      answer.reasoning = copyOf(answer.reasoning);
      for (const call of answer.calls.values()) call.arguments = copyOf(call.arguments);
    }
  }

  /** Takes the room of a part without its text. Returns false if there is none. */
  #takePart(): boolean {
    if (this.#room.left < PART_CHARACTERS) {
      this.#room.isCut = true;
      return false;
    }
    this.#room.left -= PART_CHARACTERS;
    return true;
  }
}

/** Notes the text of an answer on its way to the client. */
export class ShowingSink extends ForwardingSink {
  readonly #shown: ShownText;

  constructor(sink: GenerationSink, shown: ShownText) {
    super(sink);
    this.#shown = shown;
  }

  override text(choice: number, text: string, tokenCount: number): void {
    this.#shown.text(choice, text);
    this.sink.text(choice, text, tokenCount);
  }

  override delta(delta: TextDelta): void {
    this.#shown.text(delta.choice, delta.text);
    this.sink.delta(delta);
  }

  override finish(finish: TextFinish): void {
    this.#shown.text(finish.choice, finish.text);
    this.sink.finish(finish);
  }

  override reasoning(choice: number, text: string): void {
    this.#shown.reasoning(choice, text);
    this.sink.reasoning(choice, text);
  }

  override toolCall(choice: number, index: number, id: string, name: string): void {
    this.#shown.toolCall(choice, index, name);
    this.sink.toolCall(choice, index, id, name);
  }

  override toolArguments(choice: number, index: number, text: string): void {
    this.#shown.toolArguments(choice, index, text);
    this.sink.toolArguments(choice, index, text);
  }

  override body(body: unknown): void {
    this.#shown.body(body);
    this.sink.body(body);
  }
}
