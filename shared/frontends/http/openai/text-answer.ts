import type { ServeError } from '../../../errors/index.ts';
import {
  type GenerationSink,
  type ServingWorkers,
  type TextDelta,
  type TextFinish,
  textMemory,
  type Usage,
} from '../../../protocol/index.ts';
import type { OpenedModel } from '../../inference/dialect.ts';
import type { Inference } from '../serve-inference.ts';
import { BatchUsage, WholeSink } from '../sinks/dialect-sink.ts';
import { namesOf, type WireNames } from '../sinks/response-names.ts';
import { RunningUsage } from '../sinks/running-usage.ts';
import { sendObject } from '../sinks/send.ts';
import { BodyCollector, type SaidChoice } from './choices.ts';
import { NvextFields } from './nvext.ts';
import { NO_USAGE, type TextAnswer, TextStream } from './text-stream.ts';
import { usageBody } from './usage.ts';

/**
 * Starts every prompt of an answer under one signal.
 * @throws ServeError `server_overloaded` if there is no room for an answer that is kept until it is whole,
 * `invalid_value` if its echoes are already too large for one or another request has its id
 */
export function generateAnswer(
  inference: Inference,
  answer: TextAnswer,
  { meter, primaryName, isStream }: OpenedModel,
): void {
  const { requests, id, dialect, isContinuous, choicesPerPrompt, echoes } = answer;
  const names = namesOf(inference, isStream, dialect.idPrefix + id, primaryName, requests.length > 1);
  // Each choice begins with its echo
  for (const echo of echoes ?? []) inference.room.take(textMemory(echo) * choicesPerPrompt);
  const batch = isStream ? new TextStream(inference, answer, names) : new WholeText(inference, answer, names);
  const signal = inference.watch(batch);
  for (const [index, request] of requests.entries()) {
    if (index > 0 && signal.aborted) return; // an earlier prompt failed at once
    const running = isContinuous ? new RunningUsage(meter, request) : undefined;
    const sink = batch.prompt(index, running);
    const kept = isStream ? sink : inference.kept(sink);
    inference.deps.pipeline.generate(request, inference.shown(request, kept), { signal, meter: running ?? meter });
  }
}

/** Collects the answer to one prompt, or to a batch of them, in one object. */
class WholeText extends WholeSink {
  readonly answer: TextAnswer;
  /** Bodies of workers that took the request's body untouched. */
  readonly bodies: BodyCollector;
  readonly #names: WireNames;
  readonly #prompts: WholePrompt[] = [];
  readonly #usage: BatchUsage;
  #isFinished = false;

  constructor(inference: Inference, answer: TextAnswer, names: WireNames) {
    super(inference);
    this.answer = answer;
    this.#names = names;
    this.bodies = new BodyCollector(answer.dialect);
    this.#usage = new BatchUsage(answer.requests.length);
  }

  /** Returns the sink of one prompt. */
  prompt(index: number): WholePrompt {
    const prompt = new WholePrompt(this, index);
    this.#prompts.push(prompt);
    return prompt;
  }

  promptEnded(usage: Usage, finished: boolean): void {
    if (this.isOver) return;
    this.#isFinished ||= finished;
    const whole = this.#usage.ended(usage);
    if (whole !== undefined) this.end(whole, this.#isFinished);
  }

  protected get hasOutput(): boolean {
    return !this.bodies.isEmpty || this.#prompts.some(({ choices }) => choices.length > 0);
  }

  protected write(usage: Usage, finished: boolean): Promise<void> | undefined {
    const { inference, bodies } = this;
    if (!bodies.isEmpty) {
      return sendObject(inference, bodies.whole(this.#names, usageBody(usage), inference));
    }
    const { id, created, model } = this.#names;
    const { object } = this.answer.dialect;
    const choices = this.#prompts.flatMap((prompt) => prompt.choiceBodies());
    const whole = { id, choices, created, model, object, ...(finished && { usage: usageBody(usage) }) };
    return sendObject(inference, whole, this.#prompts[0]?.nvextPieces());
  }
}

/** Collects the answer to one prompt. */
class WholePrompt implements GenerationSink {
  readonly #batch: WholeText;
  /** Choices in the order of their indices. */
  readonly choices: SaidChoice[] = [];
  readonly #index: number;
  readonly #nvext: NvextFields | undefined;
  readonly #tokenIds: number[] = [];
  #stopReason: string | number | undefined;

  constructor(batch: WholeText, index: number) {
    this.#batch = batch;
    this.#index = index;
    const request = batch.answer.requests[index]!; // the caller counts over the same array
    this.#nvext = NvextFields.for(request, batch.inference);
  }

  text(choice: number, text: string): void {
    this.#at(choice).text += text;
  }

  delta(delta: TextDelta): void {
    const choice = this.#at(delta.choice);
    choice.text += delta.text;
    // A spread would limit how many there can be
    for (const logprob of delta.logprobs ?? []) choice.logprobs.push(logprob);
    for (const id of delta.tokenIds) this.#tokenIds.push(id);
  }

  finish(finish: TextFinish): void {
    this.delta(finish);
    this.#at(finish.choice).finish = finish.reason;
    this.#stopReason = finish.stopReason;
  }

  reasoning(choice: number, text: string): void {
    this.#at(choice).reasoning += text;
  }

  toolCall(choice: number, index: number, id: string, name: string): void {
    this.#at(choice).tools[index] = { id, name, arguments: '' };
  }

  toolArguments(choice: number, index: number, text: string): void {
    const tool = this.#at(choice).tools[index];
    if (tool !== undefined) tool.arguments += text;
  }

  worker(workers: ServingWorkers): void {
    this.#nvext?.worker(workers);
  }

  routed(workers: ServingWorkers, tokenIds: readonly number[]): void {
    this.#nvext?.routed(workers, tokenIds);
    this.#at(0);
    this.#batch.promptEnded(NO_USAGE, false);
  }

  engineData(data: Readonly<Record<string, unknown>>): void {
    this.#nvext?.engineData(data);
  }

  body(body: unknown): void {
    this.#batch.bodies.add(body, this.#firstChoice);
  }

  /** Drops annotations, because a whole answer has no place for them. */
  annotation(): void {}

  end(usage: Usage, finished: boolean): void {
    this.#batch.promptEnded(usage, finished);
  }

  /** Fails the whole batch at the first failure. */
  fail(error: ServeError): void {
    this.#batch.fail(error);
  }

  isBlocked(): boolean {
    return this.#batch.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.#batch.onUnblocked(callback);
  }

  choiceBodies(): object[] {
    const { answer, inference } = this.#batch;
    const body = (choice: SaidChoice, at: number): object =>
      answer.dialect.choiceBody(choice, this.#firstChoice + at, inference);
    return this.choices.map(body);
  }

  nvextPieces(): Iterable<string> | undefined {
    return this.#nvext?.pieces({ tokenIds: this.#tokenIds, finish: { stopReason: this.#stopReason } });
  }

  get #firstChoice(): number {
    return this.#index * this.#batch.answer.choicesPerPrompt;
  }

  #at(index: number): SaidChoice {
    return this.choices[index] ?? this.#open(index);
  }

  /** Makes the choice at `index`, and those before it. */
  #open(index: number): SaidChoice {
    const text = this.#batch.answer.echoes?.[this.#index] ?? '';
    while (this.choices.length <= index)
      this.choices.push({ text, reasoning: '', tools: [], logprobs: [], finish: null });
    return this.choices[index]!; // just filled up to it
  }
}
