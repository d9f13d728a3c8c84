import { assertNever } from '../../../errors/index.ts';
import type { GenerationEvent, GenerationRequest, Usage } from '../../../protocol/generation/index.ts';
import { UnaryAnswer } from '../answers/whole-answer.ts';
import { writeObject } from '../answers/written-answer.ts';
import type { InferenceCall } from '../inference-call.ts';
import { BodyFold } from './body-fold.ts';
import { wholeChatLogprobs } from './logprobs-json.ts';
import { NvextAnswer } from './nvext-answer.ts';
import { type SaidChoice, SaidChoices } from './said-choices.ts';
import { usageBody } from './usage-json.ts';
import type { WireNames } from './wire-names.ts';

interface ToolCall {
  readonly id: string;
  readonly name: string;
  arguments: string;
}

/** One choice as it grows. */
interface ChatChoice extends SaidChoice {
  reasoning: string;
  readonly tools: ToolCall[];
}

/** Folds one request into a chat completion object. */
export class ChatUnary extends UnaryAnswer {
  readonly #names: WireNames;
  readonly #nvext: NvextAnswer | undefined;
  readonly #choices = new SaidChoices<ChatChoice>(() => ({
    text: '',
    reasoning: '',
    tools: [],
    logprobs: [],
    finish: null,
  }));
  #bodies: BodyFold | undefined;

  constructor(call: InferenceCall, request: GenerationRequest, names: WireNames) {
    super(call);
    this.#names = names;
    this.#nvext = NvextAnswer.for(request, call);
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
      case 'reasoning':
        this.#choices.at(event.choice).reasoning += event.text;
        return;
      case 'tool-call':
        this.#choices.at(event.choice).tools[event.index] = { id: event.id, name: event.name, arguments: '' };
        return;
      case 'tool-arguments': {
        const tool = this.#choices.at(event.choice).tools[event.index];
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

  protected get hasOutput(): boolean {
    return this.#bodies !== undefined || this.#choices.all.length > 0;
  }

  protected write(usage: Usage, finished: boolean): Promise<void> | undefined {
    if (this.#bodies !== undefined) return writeObject(this.call, this.#bodies.whole(this.#names));
    return writeObject(this.call, this.#object(usage, finished), this.#nvext?.pieces(this.#choices.ending));
  }

  #object(usage: Usage, finished: boolean): object {
    const { id, created, model } = this.#names;
    return {
      id,
      choices: this.#choices.all.map((choice, index) => this.#choiceBody(choice, index)),
      created,
      model,
      object: 'chat.completion',
      ...(finished ? { usage: usageBody(usage) } : {}),
    };
  }

  #choiceBody(choice: ChatChoice, index: number): object {
    return {
      index,
      message: {
        content: choice.text === '' ? null : choice.text,
        refusal: null,
        ...(choice.tools.length === 0 ? {} : { tool_calls: choice.tools.map(toolBody) }),
        role: 'assistant',
        ...(choice.reasoning === '' ? {} : { [this.call.deps.settings.reasoningField]: choice.reasoning }),
      },
      finish_reason: choice.finish,
      logprobs: wholeChatLogprobs(choice.logprobs),
    };
  }
}

function toolBody({ id, name, arguments: text }: ToolCall): object {
  return { id, type: 'function', function: { name, arguments: text } };
}
