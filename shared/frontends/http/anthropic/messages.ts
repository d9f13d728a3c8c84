import { ServeError } from '../../../errors/index.ts';
import { missingModelHint, servesType } from '../../../pipeline/index.ts';
import {
  decodeMessages,
  type GenerationRequest,
  ignoredKeyLabels,
  MESSAGES_KEYS,
  type MessagesDecodeOptions,
  messagesSchema,
  parseMessagesBody,
  type TextFinish,
  type Usage,
  warmsCache,
} from '../../../protocol/index.ts';
import { decodeContext, generate, modelsShown, notListed } from '../../inference/dialect.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { BodyRoute } from '../route.ts';
import { type Inference, serveInference, tellLeftOut } from '../serve-inference.ts';
import { ChatBodyReader } from '../sinks/chat-body-reader.ts';
import { WholeSink } from '../sinks/dialect-sink.ts';
import { namesOf, type WireNames } from '../sinks/response-names.ts';
import { RunningUsage } from '../sinks/running-usage.ts';
import { sendObject } from '../sinks/send.ts';
import { CacheWarming } from './cache-warming.ts';
import { MessageStream } from './message-stream.ts';
import {
  anthropicRequestId,
  END_OF_TURN,
  type MessageStop,
  messageBody,
  messageStop,
  messageUsage,
  newRequestId,
  notUnderWay,
  refuseMessages,
  requestIdHeader,
  SIGNATURE,
  toolUseId,
} from './wire.ts';

/** `POST /v1/messages`. */
const serveMessages = serveInference({
  endpoint: 'anthropic_messages',
  parse: parseMessagesBody,
  start: (inference, body, { meter, primaryName }) => {
    const { deps } = inference;
    const context = decodeContext(inference, body.model);
    const request = decodeMessages(body, context, decodeOptions(deps, body.model));
    tellLeftOut(inference, 'anthropic_messages', context.leftOut);
    deps.metrics.ignoredKeys('anthropic_messages', ignoredKeyLabels(body, MESSAGES_KEYS));
    inference.identify(request);
    requireChatModel(inference, body.model);
    const names = namesOf(inference, request.stream, `msg_${request.id.replaceAll('-', '')}`, primaryName);
    const running = new RunningUsage(meter, request);
    const sink = request.stream
      ? new MessageStream(inference, request, names, running)
      : new (warmsCache(body) ? CacheWarming : Message)(inference, request, names);
    generate(inference, request, sink, { meter: running });
  },
  refuse: (inference, error) => {
    const { requestId, deps } = inference;
    const id = requestId === undefined ? newRequestId(deps.random) : anthropicRequestId(requestId);
    refuseMessages(inference, error, id);
  },
});

export const messages: BodyRoute = {
  serve: serveMessages,
  body: {
    name: 'MessageRequest',
    schema: messagesSchema,
    example: ({ Chat: model }) => ({ model, messages: [{ role: 'user', content: 'What are you?' }], max_tokens: 64 }),
  },
};

/** Returns how to decode a body of Messages for a model. */
export function decodeOptions({ settings, pipeline }: HttpAppDeps, model: string): MessagesDecodeOptions {
  const { card, passesChats = false } = pipeline.requestable.find(model) ?? {};
  const { stripsPreamble } = settings.anthropic;
  // The engine's own parser is not known here: it gets the client's wish, if there is one
  if (passesChats) return { stripsPreamble, hasReasoningParser: 'if-asked' };
  return { stripsPreamble, hasReasoningParser: card?.runtime_config.reasoning_parser !== undefined };
}

/** Checks, after the body, that the name is registered for chat. @throws ServeError 404 */
function requireChatModel({ deps, exchange }: Inference, name: string): void {
  const model = deps.pipeline.requestable.find(name);
  if (model !== undefined && servesType(model, 'Chat')) return;
  const hint = missingModelHint(modelsShown(deps, exchange), { ...notListed(deps), name, type: 'Chat' });
  throw new ServeError('model_not_found', `Model '${name}' not found. ${hint}`, { param: 'model' });
}

/** One content block as it grows. */
type Block =
  | { readonly kind: 'text'; text: string }
  | { readonly kind: 'thinking'; text: string }
  | { readonly kind: 'tool_use'; text: string; readonly index: number; readonly id: string; readonly name: string };

/** Collects the answer to one request in a message object, which has the blocks of the stream. */
class Message extends WholeSink {
  readonly #names: WireNames;
  readonly #requestId: string;
  readonly #stopSequences: readonly string[];
  readonly #blocks: Block[] = [];
  #bodies: ChatBodyReader | undefined;
  #stop: MessageStop = END_OF_TURN;
  protected hasOutput = false;

  constructor(inference: Inference, request: GenerationRequest, names: WireNames) {
    super(inference);
    this.#names = names;
    this.#requestId = anthropicRequestId(request.id);
    this.#stopSequences = request.stop.stop ?? [];
  }

  override text(_choice: number, text: string): void {
    this.hasOutput = true;
    if (text !== '') this.#grow('text', text);
  }

  override finish(finish: TextFinish): void {
    this.text(finish.choice, finish.text);
    this.#stop = messageStop(finish, this.#stopSequences);
  }

  override reasoning(_choice: number, text: string): void {
    this.hasOutput = true;
    if (text !== '') this.#grow('thinking', text);
  }

  override toolCall(_choice: number, index: number, _id: string, name: string): void {
    this.hasOutput = true;
    const id = toolUseId(this.inference.deps.random.uuid());
    this.#blocks.push({ kind: 'tool_use', text: '', index, id, name });
  }

  override toolArguments(_choice: number, index: number, text: string): void {
    const last = this.#blocks.at(-1);
    if (last?.kind === 'tool_use' && last.index === index) last.text += text;
    else this.fail(notUnderWay(index));
  }

  override body(body: unknown): void {
    this.#bodies ??= new ChatBodyReader(this);
    this.#bodies.read(body);
  }

  protected write(usage: Usage): Promise<void> | undefined {
    this.#bodies?.end();
    const content = this.#blocks.length === 0 ? [EMPTY_TEXT] : this.#blocks.map(blockBody);
    const body = messageBody(this.#names, content, this.#stop, messageUsage(usage));
    return sendObject(this.inference, body, [], requestIdHeader(this.#requestId));
  }

  protected override tell(error: ServeError): void {
    refuseMessages(this.inference, error, this.#requestId);
  }

  #grow(kind: 'text' | 'thinking', text: string): void {
    const last = this.#blocks.at(-1);
    if (last?.kind === kind) last.text += text;
    else this.#blocks.push({ kind, text });
  }
}

const EMPTY_TEXT = Object.freeze({ type: 'text', text: '' });

function blockBody(block: Block): object {
  switch (block.kind) {
    case 'text':
      return { type: 'text', text: block.text };
    case 'thinking':
      return { type: 'thinking', thinking: block.text, signature: SIGNATURE };
    case 'tool_use':
      return { type: 'tool_use', id: block.id, name: block.name, input: toolInput(block.text) };
  }
}

/**
 * Returns the arguments of a call as `input`, which is an object in this dialect. Arguments that are not an object,
 * because the text ended inside of them, are not repaired. They are kept whole under the name that Anthropic's
 * documents use for invalid JSON.
 */
function toolInput(text: string): object {
  if (text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch {
    // handled below, as any other text that is not an object
  }
  return { INVALID_JSON: text };
}
