import { assertNever, ServeError } from '../../../errors/index.ts';
import type {
  FinishReason,
  GenerationEvent,
  GenerationRequest,
  GenerationSink,
  TokenLogprob,
  Usage,
} from '../../../protocol/generation/index.ts';
import type { DecodedCompletions } from '../../../protocol/openai/index.ts';
import { answerText } from '../answer.ts';
import type { Abandonable, InferenceCall } from '../inference-call.ts';
import { BodyFold } from './body-fold.ts';
import { completionLogprobs } from './logprobs-json.ts';
import { NvextAnswer } from './nvext-answer.ts';
import { addUsage, usageBody } from './usage-json.ts';
import type { WireNames } from './wire-names.ts';

interface TextChoice {
  text: string;
  readonly logprobs: TokenLogprob[];
  finish: FinishReason | null;
}

/** Folds a batch of prompts into one completions object (http-api.md, sections 4.2 and 4.3). */
export class CompletionsUnary implements Abandonable {
  readonly #call: InferenceCall;
  readonly #names: WireNames;
  readonly #decoded: DecodedCompletions;
  readonly #cancel: () => void;
  readonly #prompts: PromptFold[] = [];
  #usage: Usage | undefined;
  #isFinished = false;
  #promptsLeft: number;
  #isOver = false;

  /** @param cancel ends the work of all prompts */
  constructor(call: InferenceCall, names: WireNames, decoded: DecodedCompletions, cancel: () => void) {
    this.#call = call;
    this.#names = names;
    this.#decoded = decoded;
    this.#cancel = cancel;
    this.#promptsLeft = decoded.requests.length;
  }

  /** The sink of one prompt. */
  prompt(index: number): PromptFold {
    const request = this.#decoded.requests[index]!; // the caller counts over the same array
    const fold = new PromptFold(this, this.#call, request, this.#decoded.echoes?.[index] ?? '');
    this.#prompts[index] = fold;
    return fold;
  }

  promptEnded(usage: Usage, finished: boolean): void {
    if (this.#isOver) return;
    this.#usage = this.#usage === undefined ? usage : addUsage(this.#usage, usage);
    this.#isFinished ||= finished;
    if (--this.#promptsLeft > 0) return;
    if (this.#prompts.every((prompt) => prompt.isEmpty)) {
      this.fail(new ServeError('internal_error', 'Internal server error', { cause: 'the worker sent nothing' }));
      return;
    }
    this.#isOver = true;
    answerText(this.#call.exchange, 200, 'application/json', this.#answerText(this.#usage));
    this.#call.succeed(this.#usage);
  }

  fail(error: ServeError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#call.refuse(error);
    this.#cancel();
  }

  abandon(): void {
    this.#isOver = true;
  }

  #answerText(usage: Usage): string {
    const passedThrough = this.#prompts[0]?.bodies;
    if (passedThrough !== undefined) return passedThrough.text(this.#names);
    const { id, created, model } = this.#names;
    const { choicesPerPrompt } = this.#decoded;
    const text = JSON.stringify({
      id,
      choices: this.#prompts.flatMap((prompt, index) => prompt.choiceBodies(index * choicesPerPrompt)),
      created,
      model,
      system_fingerprint: null,
      object: 'text_completion',
      ...(this.#isFinished ? { usage: usageBody(usage) } : {}),
    });
    const nvext = this.#prompts[0]?.nvextText() ?? '';
    return nvext === '' ? text : `${text.slice(0, -1)}${nvext}}`;
  }
}

/** Folds one prompt. */
class PromptFold implements GenerationSink {
  readonly #batch: CompletionsUnary;
  readonly #nvext: NvextAnswer | undefined;
  readonly #echo: string;
  readonly #choices: TextChoice[] = [];
  readonly #tokenIds: number[] = [];
  #stopReason: string | number | undefined;
  bodies: BodyFold | undefined;

  constructor(batch: CompletionsUnary, call: InferenceCall, request: GenerationRequest, echo: string) {
    this.#batch = batch;
    this.#nvext = NvextAnswer.for(request, call);
    this.#echo = echo;
  }

  /** The worker sent nothing at all. */
  get isEmpty(): boolean {
    return this.#choices.length === 0 && this.bodies === undefined;
  }

  text(choice: number, text: string): void {
    this.#choice(choice).text += text;
  }

  event(event: GenerationEvent): void {
    switch (event.kind) {
      case 'delta':
      case 'finish': {
        const choice = this.#choice(event.choice);
        choice.text += event.text;
        if (event.logprobs !== undefined) choice.logprobs.push(...event.logprobs);
        if (this.#nvext !== undefined) this.#tokenIds.push(...event.tokenIds);
        if (event.kind === 'delta') return;
        choice.finish = event.reason;
        this.#stopReason = event.stopReason;
        return;
      }
      case 'worker':
        this.#nvext?.worker(event);
        return;
      case 'engine-data':
        this.#nvext?.engineData(event.data);
        return;
      case 'body':
        this.bodies ??= new BodyFold('text_completion');
        this.bodies.add(event.body);
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

  end(usage: Usage, finished: boolean): void {
    this.#batch.promptEnded(usage, finished);
  }

  fail(error: ServeError): void {
    this.#batch.fail(error);
  }

  /** A unary answer is kept whole; its size is bounded by the token budget. */
  isBlocked(): boolean {
    return false;
  }

  onUnblocked(callback: () => void): void {
    queueMicrotask(callback);
  }

  choiceBodies(firstIndex: number): object[] {
    return this.#choices.map((choice, index) => ({
      text: choice.text,
      index: firstIndex + index,
      ...(choice.logprobs.length === 0 ? {} : { logprobs: completionLogprobs(choice.logprobs) }),
      ...(choice.finish === null ? {} : { finish_reason: choice.finish }),
    }));
  }

  nvextText(): string {
    return this.#nvext?.take({ tokenIds: this.#tokenIds, finish: { stopReason: this.#stopReason } }) ?? '';
  }

  #choice(index: number): TextChoice {
    for (let at = this.#choices.length; at <= index; at++) {
      this.#choices.push({ text: this.#echo, logprobs: [], finish: null });
    }
    return this.#choices[index]!; // just filled up to it
  }
}
