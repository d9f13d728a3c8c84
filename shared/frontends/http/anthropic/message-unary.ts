import { assertNever, type ServeError, workerError } from '../../../errors/index.ts';
import type { GenerationEvent, GenerationRequest, Usage } from '../../../protocol/generation/index.ts';
import { UnaryAnswer } from '../answers/whole-answer.ts';
import { writeObject } from '../answers/written-answer.ts';
import type { InferenceCall } from '../inference-call.ts';
import { ChatBodyReader } from '../openai/chat-body-reader.ts';
import { refuseMessages, requestIdHeader } from './errors.ts';
import {
  END_OF_TURN,
  type MessageNames,
  type MessageStop,
  messageBody,
  messageStop,
  messageUsage,
  toolUseId,
} from './message-shape.ts';

/** One content block as it grows. */
type Block =
  | { readonly kind: 'text'; text: string }
  | { readonly kind: 'thinking'; text: string }
  | { readonly kind: 'tool_use'; text: string; readonly index: number; readonly id: string; readonly name: string };

/** Folds one request into a message object: the blocks of the stream, put together. */
export class MessageUnary extends UnaryAnswer {
  readonly #names: MessageNames;
  readonly #estimate: () => number;
  readonly #stopSequences: readonly string[];
  readonly #blocks: Block[] = [];
  #bodies: ChatBodyReader | undefined;
  #stop: MessageStop = END_OF_TURN;
  #hasOutput = false;

  /** @param estimate stands in for a prompt that only a worker could count */
  constructor(call: InferenceCall, request: GenerationRequest, names: MessageNames, estimate: () => number) {
    super(call);
    this.#names = names;
    this.#estimate = estimate;
    this.#stopSequences = request.stop.stop ?? [];
  }

  text(_choice: number, text: string): void {
    this.#hasOutput = true;
    if (text !== '') this.#grow('text', text);
  }

  event(event: GenerationEvent): void {
    switch (event.kind) {
      case 'delta':
        this.text(event.choice, event.text);
        return;
      case 'finish':
        this.text(event.choice, event.text);
        this.#stop = messageStop(event, this.#stopSequences);
        return;
      case 'reasoning':
        this.#hasOutput = true;
        if (event.text !== '') this.#grow('thinking', event.text);
        return;
      case 'tool-call': {
        const { index, name } = event;
        this.#hasOutput = true;
        this.#blocks.push({ kind: 'tool_use', text: '', index, id: toolUseId(this.call.deps.random.uuid()), name });
        return;
      }
      case 'tool-arguments':
        this.#growInput(event.index, event.text);
        return;
      case 'body':
        this.#bodies ??= new ChatBodyReader(this);
        this.#bodies.read(event.body);
        return;
      case 'annotation':
      case 'worker':
      case 'engine-data':
        return; // a message has no place for them
      default:
        assertNever(event);
    }
  }

  protected get hasOutput(): boolean {
    return this.#hasOutput;
  }

  protected write(usage: Usage): Promise<void> | undefined {
    this.#bodies?.end();
    const content = this.#blocks.length === 0 ? [EMPTY_TEXT] : this.#blocks.map(blockBody);
    const body = messageBody(this.#names, content, this.#stop, messageUsage(usage, this.#estimate));
    return writeObject(this.call, body, [], requestIdHeader(this.#names.requestId));
  }

  protected override refuse(error: ServeError): void {
    refuseMessages(this.call, error, this.#names.requestId);
  }

  #grow(kind: 'text' | 'thinking', text: string): void {
    const last = this.#blocks.at(-1);
    if (last?.kind === kind) last.text += text;
    else this.#blocks.push({ kind, text });
  }

  #growInput(index: number, text: string): void {
    const last = this.#blocks.at(-1);
    if (last?.kind === 'tool_use' && last.index === index) last.text += text;
    else this.fail(workerError('BackendProtocol', `arguments of tool call ${index}, which is not the one under way`));
  }
}

const EMPTY_TEXT = Object.freeze({ type: 'text', text: '' });

function blockBody(block: Block): object {
  switch (block.kind) {
    case 'text':
      return { type: 'text', text: block.text };
    case 'thinking':
      return { type: 'thinking', thinking: block.text, signature: '' };
    case 'tool_use':
      return { type: 'tool_use', id: block.id, name: block.name, input: toolInput(block.text) };
  }
}

/**
 * `input` is an object on this wire. Arguments that are none, because the text ended inside of them, are not repaired: they stand whole under the name that Anthropic's documents use for invalid JSON.
 */
function toolInput(text: string): object {
  if (text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch {
    // told below, as any other text that is no object
  }
  return { INVALID_JSON: text };
}
