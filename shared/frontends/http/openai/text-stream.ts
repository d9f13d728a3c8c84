import type { ServeError } from '../../../errors/index.ts';
import type {
  DecodedCompletions,
  FinishReason,
  GenerationSink,
  ServingWorkers,
  TextDelta,
  TextFinish,
  TokenLogprob,
  Usage,
} from '../../../protocol/index.ts';
import { isRecord, type UnknownRecord } from '../../../records/index.ts';
import type { Inference } from '../serve-inference.ts';
import { annotationFrame, preprocessorFrame } from '../sinks/annotations.ts';
import { BatchUsage, type SseStream, StreamSink } from '../sinks/dialect-sink.ts';
import { namesOf, type WireNames } from '../sinks/response-names.ts';
import type { RunningUsage } from '../sinks/running-usage.ts';
import type { SaidChoice } from './choices.ts';
import { NvextFields } from './nvext.ts';
import { type ChunkFields, SseChunks, usageChunk } from './sse-chunks.ts';
import { usageBody } from './usage.ts';
import { withFirstChoice } from './worker-chunks.ts';

/** The differences between chats and completions. */
export interface TextDialect extends ChunkFields {
  /** Prefix of the id of an answer. */
  readonly idPrefix: string;
  /** `object` of a whole answer. */
  readonly object: 'chat.completion' | 'text_completion';
  stream(batch: TextStream, index: number, running: RunningUsage | undefined): PromptStream;
  /** Returns an entry of the `choices` of a whole answer. */
  choiceBody(choice: SaidChoice, index: number, inference: Inference): object;
  /** Returns an entry of the `choices` of an answer that is collected from a worker's own chunks. */
  wholeChoice(choice: UnknownRecord, inference: Inference): UnknownRecord;
}

/** The requests of an answer to one prompt, or to a batch of them, and how to write it. */
export interface TextAnswer extends Omit<DecodedCompletions, 'echoes'> {
  readonly dialect: TextDialect;
  /** Text before each prompt's choices. @default none */
  readonly echoes?: readonly string[] | undefined;
}

/**
 * Encodes the answer to one prompt, or to a batch of them, as one stream. Each prompt writes through its own
 * `PromptStream`. The first failure ends all of them, and the last end ends the stream.
 */
export class TextStream extends StreamSink {
  readonly answer: TextAnswer;
  readonly names: WireNames;
  readonly #usage: BatchUsage;
  #isUntold = false;

  constructor(inference: Inference, answer: TextAnswer, names: WireNames) {
    super(inference);
    this.answer = answer;
    this.names = names;
    const { requests, id } = answer;
    this.#usage = new BatchUsage(requests.length);
    if (requests[0]?.annotations.includes('request_id')) {
      this.out.annotate(annotationFrame('request_id', JSON.stringify(id)));
    }
  }

  /** Returns the sink of one prompt. */
  prompt(index: number, running: RunningUsage | undefined): PromptStream {
    return this.answer.dialect.stream(this, index, running);
  }

  /** Counts a prompt as ended. @param isUntold whether its usage is known and the client has not got it yet */
  promptEnded(usage: Usage, isUntold: boolean): void {
    if (this.isOver) return;
    this.#isUntold ||= isUntold;
    const whole = this.#usage.ended(usage);
    if (whole !== undefined) this.end(whole);
  }

  end(usage: Usage): void {
    this.close();
    const { includesUsage, dialect } = this.answer;
    if (includesUsage && this.#isUntold) this.out.write(usageChunk(this.names, dialect, usage));
    this.out.finish();
    this.inference.succeed(usage);
  }
}

/** Usage of an answer that no model generated. */
export const NO_USAGE: Usage = { promptTokens: 0, completionTokens: 0 };
const NO_LOGPROBS: readonly TokenLogprob[] = [];

/** Encodes one prompt of a stream. */
export abstract class PromptStream implements GenerationSink {
  protected readonly batch: TextStream;
  protected readonly index: number;
  protected readonly out: SseStream;
  readonly #names: WireNames;
  readonly #chunks: SseChunks;
  readonly #nvext: NvextFields | undefined;
  readonly #firstChoice: number;
  /** Usage so far; present with continuous usage. */
  readonly #running: RunningUsage | undefined;
  /** Whether chunks that have only text can be put together from constants. */
  #isPlain: boolean;
  #sawBody = false;

  constructor(batch: TextStream, index: number, running: RunningUsage | undefined) {
    this.batch = batch;
    const { inference, answer, names, out } = batch;
    const { requests, choicesPerPrompt, dialect } = answer;
    const request = requests[index]!; // the caller counts over the same array
    const isAlone = requests.length === 1;
    this.index = index;
    this.out = out;
    this.#names = isAlone ? names : namesOf(inference, true, dialect.idPrefix + request.id, names.model, true);
    this.#firstChoice = index * choicesPerPrompt;
    this.#chunks = new SseChunks(this.#names, { fields: dialect, includesUsage: answer.includesUsage }, (choice) =>
      this.around(this.#firstChoice + choice),
    );
    this.#nvext = NvextFields.for(request, inference);
    this.#running = running;
    this.#isPlain = running === undefined && this.#nvext?.variesByChunk !== true;
  }

  text(choice: number, text: string): void {
    const shown = this.begin(choice, text, false);
    if (shown === '') return;
    if (this.#isPlain) this.out.write(this.#chunks.content(choice, shown), this.#chunks.isAsciiContent(shown));
    else this.writeChoice(this.choiceText(this.#firstChoice + choice, shown, NO_LOGPROBS, null));
  }

  delta(delta: TextDelta): void {
    this.#writeText(delta, undefined);
  }

  finish(finish: TextFinish): void {
    this.#writeText(finish, finish);
  }

  reasoning(_choice: number, _text: string): void {}
  toolCall(_choice: number, _index: number, _id: string, _name: string): void {}
  toolArguments(_choice: number, _index: number, _text: string): void {}

  annotation(name: string, value: string): void {
    this.out.annotate(preprocessorFrame(name, value));
  }

  worker(workers: ServingWorkers): void {
    this.#nvext?.worker(workers);
    this.#chunks.setNvext(this.#nvext?.take() ?? '');
  }

  routed(workers: ServingWorkers, tokenIds: readonly number[]): void {
    this.#nvext?.routed(workers, tokenIds);
    this.writeChoice(this.opening(this.#firstChoice));
    this.batch.promptEnded(NO_USAGE, false);
  }

  engineData(data: Readonly<Record<string, unknown>>): void {
    this.#nvext?.engineData(data);
    if (this.#nvext?.variesByChunk === true) this.#isPlain = false;
  }

  body(body: unknown): void {
    this.#sawBody = true;
    const placed = this.shown(withFirstChoice(body, this.#firstChoice));
    if (isRecord(placed) && Array.isArray(placed.choices) && placed.choices.length > 0)
      this.out.write(this.#chunks.body(placed, this.#running && (placed.usage ?? usageBody(this.#running.usage))));
  }

  end(usage: Usage, finished: boolean): void {
    if (this.#nvext?.hasEngineData === true)
      this.writeChoice(this.choiceText(this.#firstChoice, '', NO_LOGPROBS, null));
    this.batch.promptEnded(usage, this.#sawBody || finished);
  }

  /** Fails the whole batch at the first failure. */
  fail(error: ServeError): void {
    this.batch.fail(error);
  }

  isBlocked(): boolean {
    return this.batch.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.batch.onUnblocked(callback);
  }

  /** Writes what goes before the text of a choice. Returns the text to write next. */
  protected abstract begin(choice: number, text: string, isLast: boolean): string;
  /** Returns a worker's own chunk in the form of this dialect. */
  protected shown(body: unknown): unknown {
    return body;
  }

  /** Returns the JSON text of a choice that has no output yet. */
  protected abstract opening(choice: number): string;
  /** Returns the JSON text of a choice in two pieces, before and after a text that comes with nothing else. */
  protected abstract around(choice: number): readonly [head: string, tail: string];
  /** Returns the JSON text of a choice. */
  protected abstract choiceText(
    choice: number,
    text: string,
    logprobs: readonly TokenLogprob[],
    reason: FinishReason | null,
  ): string;

  /** Writes a chunk. @param choice JSON text */
  protected writeChoice(choice: string, nvext = this.#nvext?.take() ?? ''): void {
    const usage = this.#running && JSON.stringify(usageBody(this.#running.usage));
    this.out.write(this.#chunks.chunk(choice, nvext, usage));
  }

  /** Writes a chunk of text. @param finish equal to the first argument if it ends the choice */
  #writeText({ choice, text, tokenIds, logprobs = NO_LOGPROBS }: TextDelta, finish: TextFinish | undefined): void {
    const shown = this.begin(choice, text, finish !== undefined);
    const nvext = this.#nvext?.take({ tokenIds, ...(finish && { finish: { stopReason: finish.stopReason } }) }) ?? '';
    // The text is a part of a character
    if (finish === undefined && shown === '' && logprobs.length === 0 && nvext === '') return;
    this.writeChoice(this.choiceText(this.#firstChoice + choice, shown, logprobs, finish?.reason ?? null), nvext);
  }
}
