import { assertNever, ServeError } from '../../../errors/index.ts';
import type {
  FinishReason,
  GenerationEvent,
  GenerationRequest,
  GenerationSink,
  TokenLogprob,
  Usage,
} from '../../../protocol/generation/index.ts';
import { answerText } from '../answer.ts';
import type { Abandonable, InferenceCall } from '../inference-call.ts';
import { BodyFold } from './body-fold.ts';
import { chatLogprobs } from './logprobs-json.ts';
import { NvextAnswer } from './nvext-answer.ts';
import { usageBody } from './usage-json.ts';
import type { WireNames } from './wire-names.ts';

interface ToolCall {
  readonly id: string;
  readonly name: string;
  arguments: string;
}

/** One choice as it grows. */
interface ChatChoice {
  content: string;
  reasoning: string;
  readonly tools: ToolCall[];
  readonly logprobs: TokenLogprob[];
  finish: FinishReason | null;
}

/** Folds one request into a chat completion object (http-api.md, section 3.2). */
export class ChatUnary implements GenerationSink, Abandonable {
  readonly #call: InferenceCall;
  readonly #names: WireNames;
  readonly #nvext: NvextAnswer | undefined;
  readonly #choices: ChatChoice[] = [];
  readonly #tokenIds: number[] = [];
  #stopReason: string | number | undefined;
  #bodies: BodyFold | undefined;
  #isOver = false;

  constructor(call: InferenceCall, request: GenerationRequest, names: WireNames) {
    this.#call = call;
    this.#names = names;
    this.#nvext = NvextAnswer.for(request, call);
  }

  text(choice: number, text: string): void {
    this.#choice(choice).content += text;
  }

  event(event: GenerationEvent): void {
    switch (event.kind) {
      case 'delta':
      case 'finish': {
        const choice = this.#choice(event.choice);
        choice.content += event.text;
        if (event.logprobs !== undefined) choice.logprobs.push(...event.logprobs);
        if (this.#nvext !== undefined) this.#tokenIds.push(...event.tokenIds);
        if (event.kind === 'delta') return;
        choice.finish = event.reason;
        this.#stopReason = event.stopReason;
        return;
      }
      case 'reasoning':
        this.#choice(event.choice).reasoning += event.text;
        return;
      case 'tool-call':
        this.#choice(event.choice).tools[event.index] = { id: event.id, name: event.name, arguments: '' };
        return;
      case 'tool-arguments': {
        const tool = this.#choice(event.choice).tools[event.index];
        if (tool !== undefined) tool.arguments += event.text;
        return;
      }
      case 'worker':
        this.#nvext?.worker(event);
        return;
      case 'engine-data':
        this.#nvext?.engineData(event.data);
        return;
      case 'body':
        this.#bodies ??= new BodyFold('chat.completion');
        this.#bodies.add(event.body);
        return;
      case 'annotation':
        return; // unary answers have no place for them
      default:
        assertNever(event);
    }
  }

  end(usage: Usage, finished: boolean): void {
    if (this.#isOver) return;
    if (this.#bodies === undefined && this.#choices.length === 0) {
      this.fail(new ServeError('internal_error', 'Internal server error', { cause: 'the worker sent nothing' }));
      return;
    }
    this.#isOver = true;
    const text = this.#bodies === undefined ? this.#objectText(usage, finished) : this.#bodies.text(this.#names);
    answerText(this.#call.exchange, 200, 'application/json', text);
    this.#call.succeed(usage);
  }

  fail(error: ServeError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#call.refuse(error);
  }

  abandon(): void {
    this.#isOver = true;
  }

  /** A unary answer is kept whole; its size is bounded by the token budget. */
  isBlocked(): boolean {
    return false;
  }

  onUnblocked(callback: () => void): void {
    queueMicrotask(callback);
  }

  #choice(index: number): ChatChoice {
    for (let at = this.#choices.length; at <= index; at++) {
      this.#choices.push({ content: '', reasoning: '', tools: [], logprobs: [], finish: null });
    }
    return this.#choices[index]!; // just filled up to it
  }

  #objectText(usage: Usage, finished: boolean): string {
    const { id, created, model } = this.#names;
    const object = {
      id,
      choices: this.#choices.map((choice, index) => this.#choiceBody(choice, index)),
      created,
      model,
      object: 'chat.completion',
      ...(finished ? { usage: usageBody(usage) } : {}),
    };
    const text = JSON.stringify(object);
    const nvext = this.#nvext?.take({ tokenIds: this.#tokenIds, finish: { stopReason: this.#stopReason } }) ?? '';
    return nvext === '' ? text : `${text.slice(0, -1)}${nvext}}`;
  }

  #choiceBody(choice: ChatChoice, index: number): object {
    return {
      index,
      message: {
        content: choice.content === '' ? null : choice.content,
        refusal: null,
        ...(choice.tools.length === 0 ? {} : { tool_calls: choice.tools.map(toolBody) }),
        role: 'assistant',
        ...(choice.reasoning === '' ? {} : { [this.#call.deps.settings.reasoningField]: choice.reasoning }),
      },
      finish_reason: choice.finish,
      logprobs: chatLogprobs(choice.logprobs),
    };
  }
}

function toolBody({ id, name, arguments: text }: ToolCall): object {
  return { id, type: 'function', function: { name, arguments: text } };
}
