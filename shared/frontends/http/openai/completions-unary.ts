import { assertNever, type ServeError } from '../../../errors/index.ts';
import type { GenerationEvent, GenerationRequest, GenerationSink, Usage } from '../../../protocol/generation/index.ts';
import { NEVER_BLOCKED, nothingSent, WholeAnswer } from '../answers/whole-answer.ts';
import { writeObject } from '../answers/written-answer.ts';
import type { InferenceCall } from '../inference-call.ts';
import { BodyFold } from './body-fold.ts';
import type { CompletionsParts } from './completions-parts.ts';
import { wholeCompletionLogprobs } from './logprobs-json.ts';
import { NvextAnswer } from './nvext-answer.ts';
import { type SaidChoice, SaidChoices } from './said-choices.ts';
import { BatchUsage, usageBody } from './usage-json.ts';

/** Folds a batch of prompts into one completions object. */
export class CompletionsUnary extends WholeAnswer {
  readonly #parts: CompletionsParts;
  readonly #prompts: PromptFold[] = [];
  readonly #usage: BatchUsage;
  /** What workers sent that took the body untouched. */
  readonly #bodies = new BodyFold('text_completion');
  #isFinished = false;

  constructor(call: InferenceCall, parts: CompletionsParts) {
    super(call);
    this.#parts = parts;
    this.#usage = new BatchUsage(parts.decoded.requests.length);
  }

  /** The sink of one prompt. */
  prompt(index: number): GenerationSink {
    const request = this.#parts.decoded.requests[index]!; // the caller counts over the same array
    const firstChoice = index * this.#parts.decoded.choicesPerPrompt;
    const addBody = (body: unknown): void => this.#bodies.add(body, firstChoice);
    const fold = new PromptFold(this.call, request, this.#parts.echoes?.[index] ?? '', addBody);
    this.#prompts[index] = fold;
    return {
      text: (choice, text) => fold.text(choice, text),
      event: (event) => fold.event(event),
      end: (usage, finished) => this.#promptEnded(usage, finished),
      fail: (error) => this.fail(error),
      ...NEVER_BLOCKED,
    };
  }

  protected override refuse(error: ServeError): void {
    super.refuse(error);
    this.#parts.cancel();
  }

  #promptEnded(usage: Usage, finished: boolean): void {
    if (this.isOver) return;
    this.#isFinished ||= finished;
    const whole = this.#usage.ended(usage);
    if (whole === undefined) return;
    if (this.#bodies.isEmpty && this.#prompts.every(({ isEmpty }) => isEmpty)) {
      this.fail(nothingSent());
      return;
    }
    this.close();
    this.concludeWhen(this.#write(whole), whole);
  }

  #write(usage: Usage): Promise<void> | undefined {
    if (!this.#bodies.isEmpty) {
      if (this.#prompts.length > 1) this.#bodies.add({ usage: usageBody(usage) }); // each worker counted its own prompt
      return writeObject(this.call, this.#bodies.whole(this.#parts.names));
    }
    const { id, created, model } = this.#parts.names;
    const { choicesPerPrompt } = this.#parts.decoded;
    const object = {
      id,
      choices: this.#prompts.flatMap((prompt, index) => prompt.choiceBodies(index * choicesPerPrompt)),
      created,
      model,
      system_fingerprint: null,
      object: 'text_completion',
      ...(this.#isFinished ? { usage: usageBody(usage) } : {}),
    };
    return writeObject(this.call, object, this.#prompts[0]?.nvextPieces());
  }
}

/** Folds one prompt. */
class PromptFold {
  readonly #nvext: NvextAnswer | undefined;
  readonly #addBody: (body: unknown) => void;
  readonly #choices: SaidChoices<SaidChoice>;

  constructor(call: InferenceCall, request: GenerationRequest, echo: string, addBody: (body: unknown) => void) {
    this.#nvext = NvextAnswer.for(request, call);
    this.#addBody = addBody;
    this.#choices = new SaidChoices(() => ({ text: echo, logprobs: [], finish: null }));
  }

  /** The worker made no choice. */
  get isEmpty(): boolean {
    return this.#choices.all.length === 0;
  }

  text(choice: number, text: string): void {
    this.#choices.at(choice).text += text;
  }

  event(event: GenerationEvent): void {
    switch (event.kind) {
      case 'delta':
      case 'finish':
        this.#choices.say(event);
        return;
      case 'worker':
        this.#nvext?.worker(event);
        return;
      case 'engine-data':
        this.#nvext?.engineData(event.data);
        return;
      case 'body':
        this.#addBody(event.body);
        return;
      case 'annotation': // unary answers have no place for them
      case 'reasoning': // nothing is parsed on this route, so these three do not happen
      case 'tool-call':
      case 'tool-arguments':
        return;
      default:
        assertNever(event);
    }
  }

  choiceBodies(firstIndex: number): object[] {
    return this.#choices.all.map((choice, index) => ({
      text: choice.text,
      index: firstIndex + index,
      ...(choice.logprobs.length === 0 ? {} : { logprobs: wholeCompletionLogprobs(choice.logprobs) }),
      ...(choice.finish === null ? {} : { finish_reason: choice.finish }),
    }));
  }

  nvextPieces(): Iterable<string> | undefined {
    return this.#nvext?.pieces(this.#choices.ending);
  }
}
