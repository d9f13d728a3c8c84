import type { ServeError } from '../../../errors/index.ts';
import {
  type DecodedCompletions,
  decodeCompletions,
  type GenerationRequest,
  parseCompletionsBody,
  type ServingWorkers,
  type TextDelta,
  type TextFinish,
  textMemory,
  type Usage,
} from '../../../protocol/index.ts';
import type { RequestMeter } from '../../../telemetry/index.ts';
import { decodeContext, requireServed } from '../../inference/dialect.ts';
import type { HttpAppDeps } from '../deps.ts';
import { type Inference, serveInference } from '../serve-inference.ts';
import { BatchPart, BatchUsage, WholeSink } from '../sinks/dialect-sink.ts';
import { sendObject } from '../sinks/send.ts';
import { BodyFold, SaidChoices, wholeCompletionLogprobs } from './choices.ts';
import { CompletionsStream } from './completions-stream.ts';
import { NvextFields } from './nvext.ts';
import { RunningUsage } from './running-usage.ts';
import { namesOf, usageBody, type WireNames } from './wire.ts';

/** What the response to a batch of prompts is made with. */
export interface CompletionsParts {
  readonly names: WireNames;
  readonly decoded: DecodedCompletions;
  /** Text before each prompt's choices; undefined without `echo`. */
  readonly echoes: readonly string[] | undefined;
  /** Ends the work of all prompts. */
  readonly cancel: () => void;
}

/** `POST /v1/completions`. */
export const serveCompletions = serveInference({
  endpoint: 'completions',
  isOffWithoutModel: true,
  parse: parseCompletionsBody,
  start: async (inference, body, { meter, primaryName }) => {
    const decoded = decodeCompletions(body, decodeContext(inference));
    inference.identify(decoded.requests[0]!); // a batch has at least one prompt
    requireServed(inference.deps, body.model, 'completions');
    const isBatch = decoded.requests.length > 1;
    const names = namesOf(inference, body.stream === true, `cmpl-${decoded.id}`, primaryName, isBatch);
    const echoes = await echoedTexts(inference.deps, body.model, decoded);
    for (const echo of echoes ?? []) inference.room.take(textMemory(echo) * decoded.choicesPerPrompt); // each choice begins with it
    generateAll(inference, { names, decoded, echoes }, meter);
  },
});

/** What `echo` repeats of each prompt: of token ids, the text that they stand for. */
async function echoedTexts(
  { pipeline }: HttpAppDeps,
  model: string,
  { echoes }: DecodedCompletions,
): Promise<readonly string[] | undefined> {
  if (echoes === undefined) return undefined;
  return Promise.all(echoes.map((echo) => (typeof echo === 'string' ? echo : pipeline.textOf(model, echo))));
}

/** Starts every prompt of the batch under one signal. */
function generateAll(inference: Inference, told: Omit<CompletionsParts, 'cancel'>, meter: RequestMeter): void {
  const { isContinuous, requests } = told.decoded;
  const parts = { ...told, cancel: (): void => work.cancel() };
  const isStream = requests[0]?.stream === true;
  const batch = isStream ? new CompletionsStream(inference, parts) : new CompletionsObject(inference, parts);
  const work = inference.watch(batch);
  for (const [index, request] of requests.entries()) {
    if (work.signal.aborted) return; // an earlier prompt failed at once
    const running = isContinuous ? new RunningUsage(meter, request) : undefined;
    const sink = batch.prompt(index, running);
    inference.deps.pipeline.generate(request, request.stream ? sink : inference.kept(sink), {
      signal: work.signal,
      meter: running ?? meter,
    });
  }
}

/** Folds a batch of prompts into one completions object. */
class CompletionsObject extends WholeSink {
  readonly #parts: CompletionsParts;
  readonly #prompts: PromptFold[] = [];
  readonly #usage: BatchUsage;
  /** What workers sent that took the body untouched. */
  readonly #bodies = new BodyFold('text_completion');
  #isFinished = false;

  constructor(inference: Inference, parts: CompletionsParts) {
    super(inference);
    this.#parts = parts;
    this.#usage = new BatchUsage(parts.decoded.requests.length);
  }

  /** The sink of one prompt. */
  prompt(index: number): PromptFold {
    const request = this.#parts.decoded.requests[index]!; // the caller counts over the same array
    const fold = new PromptFold(this, this.inference, request, {
      firstChoice: index * this.#parts.decoded.choicesPerPrompt,
      echo: this.#parts.echoes?.[index] ?? '',
      bodies: this.#bodies,
    });
    this.#prompts[index] = fold;
    return fold;
  }

  promptEnded(usage: Usage, finished: boolean): void {
    if (this.isOver) return;
    this.#isFinished ||= finished;
    const whole = this.#usage.ended(usage);
    if (whole !== undefined) this.end(whole, this.#isFinished);
  }

  protected override tell(error: ServeError): void {
    super.tell(error);
    this.#parts.cancel();
  }

  protected get hasOutput(): boolean {
    return !this.#bodies.isEmpty || this.#prompts.some(({ isEmpty }) => !isEmpty);
  }

  protected write(usage: Usage, finished: boolean): Promise<void> | undefined {
    if (!this.#bodies.isEmpty) {
      if (this.#prompts.length > 1) this.#bodies.add({ usage: usageBody(usage) }); // each worker counted its own prompt
      return sendObject(this.inference, this.#bodies.whole(this.#parts.names));
    }
    const { id, created, model } = this.#parts.names;
    const object = {
      id,
      choices: this.#prompts.flatMap((prompt) => prompt.choiceBodies()),
      created,
      model,
      system_fingerprint: null,
      object: 'text_completion',
      ...(finished ? { usage: usageBody(usage) } : {}),
    };
    return sendObject(this.inference, object, this.#prompts[0]?.nvextPieces());
  }
}

interface PromptFoldOptions {
  readonly firstChoice: number;
  readonly echo: string;
  /** Of all prompts. */
  readonly bodies: BodyFold;
}

/** Folds one prompt. */
class PromptFold extends BatchPart<CompletionsObject> {
  readonly #nvext: NvextFields | undefined;
  readonly #options: PromptFoldOptions;
  readonly #choices: SaidChoices;

  constructor(batch: CompletionsObject, inference: Inference, request: GenerationRequest, options: PromptFoldOptions) {
    super(batch);
    this.#nvext = NvextFields.for(request, inference);
    this.#options = options;
    this.#choices = new SaidChoices(() => ({ text: options.echo, logprobs: [], finish: null }));
  }

  /** The worker made no choice. */
  get isEmpty(): boolean {
    return this.#choices.all.length === 0;
  }

  override text(choice: number, text: string): void {
    this.#choices.at(choice).text += text;
  }

  override delta(delta: TextDelta): void {
    this.#choices.delta(delta);
  }

  override finish(finish: TextFinish): void {
    this.#choices.finish(finish);
  }

  override worker(workers: ServingWorkers): void {
    this.#nvext?.worker(workers);
  }

  override engineData(data: Readonly<Record<string, unknown>>): void {
    this.#nvext?.engineData(data);
  }

  override body(body: unknown): void {
    this.#options.bodies.add(body, this.#options.firstChoice);
  }

  end(usage: Usage, finished: boolean): void {
    this.batch.promptEnded(usage, finished);
  }

  choiceBodies(): object[] {
    return this.#choices.all.map((choice, index) => ({
      text: choice.text,
      index: this.#options.firstChoice + index,
      ...(choice.logprobs.length === 0 ? {} : { logprobs: wholeCompletionLogprobs(choice.logprobs) }),
      ...(choice.finish === null ? {} : { finish_reason: choice.finish }),
    }));
  }

  nvextPieces(): Iterable<string> | undefined {
    return this.#nvext?.pieces(this.#choices.ending);
  }
}
