import {
  decodeChat,
  type GenerationRequest,
  parseChatBody,
  type ServingWorkers,
  type TextDelta,
  type TextFinish,
  type Usage,
} from '../../../protocol/index.ts';
import { decodeContext, generate, requireServed } from '../../inference/dialect.ts';
import { type Inference, serveInference } from '../serve-inference.ts';
import { WholeSink } from '../sinks/dialect-sink.ts';
import { sendObject } from '../sinks/send.ts';
import { ChatStream } from './chat-stream.ts';
import { BodyFold, type SaidChoice, SaidChoices, wholeChatLogprobs } from './choices.ts';
import { NvextFields } from './nvext.ts';
import { RunningUsage } from './running-usage.ts';
import { namesOf, usageBody, type WireNames } from './wire.ts';

/** `POST /v1/chat/completions`. */
export const serveChat = serveInference({
  endpoint: 'chat_completions',
  isOffWithoutModel: true,
  parse: parseChatBody,
  start: (inference, body, { meter, primaryName }) => {
    const { request, ...reporting } = decodeChat(body, decodeContext(inference));
    inference.identify(request);
    requireServed(inference.deps, body.model, 'chat_completions');
    const names = namesOf(inference, request.stream, `chatcmpl-${request.id}`, primaryName);
    const running = reporting.isContinuous ? new RunningUsage(meter, request) : undefined;
    const sink = request.stream
      ? new ChatStream(inference, request, names, reporting, running)
      : new ChatCompletion(inference, request, names);
    generate(inference, request, sink, { meter: running ?? meter });
  },
});

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
class ChatCompletion extends WholeSink {
  readonly #names: WireNames;
  readonly #nvext: NvextFields | undefined;
  readonly #choices = new SaidChoices<ChatChoice>(() => ({
    text: '',
    reasoning: '',
    tools: [],
    logprobs: [],
    finish: null,
  }));
  #bodies: BodyFold | undefined;

  constructor(inference: Inference, request: GenerationRequest, names: WireNames) {
    super(inference);
    this.#names = names;
    this.#nvext = NvextFields.for(request, inference);
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

  override reasoning(choice: number, text: string): void {
    this.#choices.at(choice).reasoning += text;
  }

  override toolCall(choice: number, index: number, id: string, name: string): void {
    this.#choices.at(choice).tools[index] = { id, name, arguments: '' };
  }

  override toolArguments(choice: number, index: number, text: string): void {
    const tool = this.#choices.at(choice).tools[index];
    if (tool !== undefined) tool.arguments += text;
  }

  override worker(workers: ServingWorkers): void {
    this.#nvext?.worker(workers);
  }

  override engineData(data: Readonly<Record<string, unknown>>): void {
    this.#nvext?.engineData(data);
  }

  override body(body: unknown): void {
    this.#bodies ??= new BodyFold('chat.completion');
    this.#bodies.add(body);
  }

  protected get hasOutput(): boolean {
    return this.#bodies !== undefined || this.#choices.all.length > 0;
  }

  protected write(usage: Usage, finished: boolean): Promise<void> | undefined {
    if (this.#bodies !== undefined) return sendObject(this.inference, this.#bodies.whole(this.#names));
    const { id, created, model } = this.#names;
    const object = {
      id,
      choices: this.#choices.all.map((choice, index) => this.#choiceBody(choice, index)),
      created,
      model,
      object: 'chat.completion',
      ...(finished ? { usage: usageBody(usage) } : {}),
    };
    return sendObject(this.inference, object, this.#nvext?.pieces(this.#choices.ending));
  }

  #choiceBody(choice: ChatChoice, index: number): object {
    return {
      index,
      message: {
        content: choice.text === '' ? null : choice.text,
        refusal: null,
        ...(choice.tools.length === 0 ? {} : { tool_calls: choice.tools.map(toolBody) }),
        role: 'assistant',
        ...(choice.reasoning === '' ? {} : { [this.inference.deps.settings.reasoningField]: choice.reasoning }),
      },
      finish_reason: choice.finish,
      logprobs: wholeChatLogprobs(choice.logprobs),
    };
  }
}

function toolBody({ id, name, arguments: text }: ToolCall): object {
  return { id, type: 'function', function: { name, arguments: text } };
}
