import {
  chatBody,
  decodeChat,
  type FinishReason,
  parseChatBody,
  type TokenLogprob,
  type Usage,
} from '../../../protocol/index.ts';
import { decodeContext, requireServed } from '../../inference/dialect.ts';
import type { BodyRoute } from '../route.ts';
import { serveInference, tellLeftOut } from '../serve-inference.ts';
import { chatLogprobs, wholeChatLogprobs } from './choices.ts';
import { CustomCalls, wholeCall, withCustomCalls } from './custom-calls.ts';
import { DispatchEvents } from './dispatch-events.ts';
import { generateAnswer } from './text-answer.ts';
import { PromptStream, type TextDialect } from './text-stream.ts';
import { withoutReasoning, withoutReasoningDelta, withReasoningField } from './worker-chunks.ts';

/** `POST /v1/chat/completions`. */
const serveChat = serveInference({
  endpoint: 'chat_completions',
  isOffWithoutModel: true,
  parse: parseChatBody,
  start: (inference, body, model) => {
    const context = decodeContext(inference, body.model);
    const { request, customTools, ...reporting } = decodeChat(body, context);
    tellLeftOut(inference, 'chat_completions', context.leftOut);
    inference.identify(request);
    requireServed(inference, body.model, 'chat_completions');
    const prompts = { id: request.id, requests: [request], choicesPerPrompt: body.n ?? 1 };
    const dialect = dialectOf(customTools, body.include_reasoning === false);
    generateAnswer(inference, { ...prompts, ...reporting, dialect }, model);
  },
});

export const chat: BodyRoute = {
  serve: serveChat,
  body: {
    name: 'ChatCompletionRequest',
    ...chatBody,
    example: ({ Chat: model }) => ({ model, messages: [{ role: 'user', content: 'What are you?' }], max_tokens: 64 }),
  },
};

/**
 * Returns the dialect of chats.
 * @param customTools names of the tools whose calls are written as `custom`
 * @param hidesReasoning whether the answer leaves out what the model thought
 */
const dialectOf = (customTools: ReadonlySet<string>, hidesReasoning: boolean): TextDialect => ({
  idPrefix: 'chatcmpl-',
  object: 'chat.completion',
  chunkFields: '"object":"chat.completion.chunk"',
  alwaysHasUsage: false,
  stream: (...parts) => new ChatStream({ customTools, hidesReasoning }, ...parts),
  choiceBody: ({ text, reasoning, tools, finish, logprobs }, index, { deps }) => ({
    index,
    message: {
      content: text === '' ? null : text,
      refusal: null,
      ...(tools.length === 0 ? {} : { tool_calls: tools.map((call) => wholeCall(call, customTools)) }),
      role: 'assistant',
      ...(reasoning === '' || hidesReasoning ? {} : { [deps.settings.reasoningField]: reasoning }),
    },
    finish_reason: finish,
    logprobs: wholeChatLogprobs(logprobs),
  }),
  wholeChoice: (choice, { deps }) => {
    const shown = customTools.size === 0 ? choice : withCustomCalls(choice, customTools);
    return hidesReasoning ? withoutReasoning(shown, deps.settings.reasoningField) : shown;
  },
});

/** The parts of a chat's answer that depend on the request. */
interface ChatEncoding {
  readonly customTools: ReadonlySet<string>;
  readonly hidesReasoning: boolean;
}

/** Encodes a chat completion stream. */
class ChatStream extends PromptStream {
  readonly #dispatch: DispatchEvents | undefined;
  /** Reads the calls of custom tools; undefined if there are no custom tools. */
  readonly #custom: CustomCalls | undefined;
  readonly #hidesReasoning: boolean;
  readonly #hasRole: boolean[] = [];

  constructor({ customTools, hidesReasoning }: ChatEncoding, ...parts: ConstructorParameters<typeof PromptStream>) {
    super(...parts);
    this.#hidesReasoning = hidesReasoning;
    this.#dispatch = DispatchEvents.for(this.batch.inference.deps.settings.dispatch, customTools);
    if (customTools.size > 0) this.#custom = new CustomCalls(customTools);
  }

  override reasoning(choice: number, text: string): void {
    if (this.#hidesReasoning) return;
    if (this.#dispatch !== undefined) this.#tellFirst(this.#dispatch.reasoning(choice, text));
    if (this.#hasRole[choice] !== true) this.#writeRole(choice, '""');
    this.#writeDelta(choice, `{"${this.batch.inference.deps.settings.reasoningField}":${JSON.stringify(text)}}`);
  }

  override toolCall(choice: number, index: number, id: string, name: string): void {
    if (this.#dispatch !== undefined) this.#tellFirst(this.#dispatch.callStart(choice, index, id, name));
    if (this.#hasRole[choice] !== true) this.#writeRole(choice, 'null');
    const called =
      this.#custom?.begin(choice, index, name) === true
        ? `"type":"custom","custom":{"name":${JSON.stringify(name)},"input":""}`
        : `"type":"function","function":{"name":${JSON.stringify(name)},"arguments":""}`;
    this.#writeDelta(choice, `{"tool_calls":[{"index":${index},"id":${JSON.stringify(id)},${called}}]}`);
  }

  override toolArguments(choice: number, index: number, text: string): void {
    this.#dispatch?.callArguments(choice, text);
    if (this.#hasRole[choice] !== true) this.#writeRole(choice, 'null');
    const input = this.#custom?.grow(choice, index, text);
    if (input === '') return; // the text was a part of the JSON around the input
    const grown =
      input === undefined
        ? `"function":{"arguments":${JSON.stringify(text)}}`
        : `"custom":{"input":${JSON.stringify(input)}}`;
    this.#writeDelta(choice, `{"tool_calls":[{"index":${index},${grown}}]}`);
  }

  override end(usage: Usage, finished: boolean): void {
    for (const [choice, rest] of this.#custom?.endAll() ?? []) this.#tellRest(choice, rest);
    super.end(usage, finished);
  }

  protected override shown(body: unknown): unknown {
    const { reasoningField } = this.batch.inference.deps.settings;
    const shown = this.#hidesReasoning ? withoutReasoningDelta(body) : withReasoningField(body, reasoningField);
    return this.#custom === undefined ? shown : this.#custom.shown(shown);
  }

  protected begin(choice: number, text: string, isLast: boolean): string {
    if (this.#hasRole[choice] !== true) this.#writeRole(choice, '""');
    if (isLast && this.#custom !== undefined) this.#tellRest(choice, this.#custom.end(choice));
    if (this.#dispatch !== undefined && (isLast || text !== '')) this.#tellFirst(this.#dispatch.close(choice));
    return text;
  }

  protected opening(choice: number): string {
    return deltaChoice(choice, ROLE);
  }

  protected around(choice: number): readonly [head: string, tail: string] {
    return [`{"index":${choice},"delta":{"content":`, '},"finish_reason":null,"logprobs":null}'];
  }

  protected choiceText(
    choice: number,
    text: string,
    logprobs: readonly TokenLogprob[],
    reason: FinishReason | null,
  ): string {
    const delta = text === '' ? '{}' : `{"content":${JSON.stringify(text)}}`;
    const ending = `"finish_reason":${JSON.stringify(reason)},"logprobs":${JSON.stringify(chatLogprobs(logprobs))}`;
    return `{"index":${choice},"delta":${delta},${ending}}`;
  }

  /** Writes the input of custom tools that was held back. */
  #tellRest(choice: number, rest: readonly object[]): void {
    if (rest.length > 0) this.#writeDelta(choice, JSON.stringify({ tool_calls: rest }));
  }

  /** Writes side events before the chunk that they complete. */
  #tellFirst(frames: string): void {
    if (frames !== '') this.out.write(frames);
  }

  /** Writes the first chunk of a choice, which has only the role of the speaker. @param content JSON text */
  #writeRole(choice: number, content: string): void {
    this.#hasRole[choice] = true;
    this.#writeDelta(choice, content === '""' ? ROLE : `{"role":"assistant","content":${content}}`);
  }

  #writeDelta(choice: number, delta: string): void {
    this.writeChoice(deltaChoice(choice, delta));
  }
}

const ROLE = '{"role":"assistant","content":""}';

/** Returns the JSON text of a choice of a chunk. @param delta JSON text */
function deltaChoice(choice: number, delta: string): string {
  return `{"index":${choice},"delta":${delta},"finish_reason":null,"logprobs":null}`;
}
