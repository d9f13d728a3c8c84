import { anthropicErrorBody, assertNever, type ServeError, workerError } from '../../../errors/index.ts';
import type { GenerationEvent, GenerationRequest, GenerationSink, Usage } from '../../../protocol/generation/index.ts';
import { isAscii } from '../answers/ascii.ts';
import { COMMENT_FRAME, type SseStream } from '../answers/sse-stream.ts';
import { StreamAnswer } from '../answers/stream-answer.ts';
import type { InferenceCall } from '../inference-call.ts';
import { annotationFrame, preprocessorFrame } from '../openai/annotation-frame.ts';
import { ChatBodyReader } from '../openai/chat-body-reader.ts';
import type { RunningUsage } from '../openai/running-usage.ts';
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

type BlockKind = 'text' | 'thinking' | 'tool_use';

const DELTAS: Readonly<Record<BlockKind, string>> = {
  text: '"text_delta","text":',
  thinking: '"thinking_delta","thinking":',
  tool_use: '"input_json_delta","partial_json":',
};

const DELTA_END = '}}\n\n';

const TEXT_BLOCK = '{"type":"text","text":""}';

const THINKING_BLOCK = '{"type":"thinking","thinking":"","signature":""}';

/** Clients expect a signature with every thought; ours cannot be checked. */
const SIGNATURE_DELTA = '{"type":"signature_delta","signature":"erased"}';

const PING_FRAME = eventFrame('ping', '{"type":"ping"}');
const STOP_FRAME = eventFrame('message_stop', '{"type":"message_stop"}');

/** What the message's numbers come from. */
export interface MessageCounts {
  /** Counts of the request under way. */
  readonly running: RunningUsage;
  /** Stands in for a prompt that only a worker could count. */
  readonly estimate: () => number;
}

/** Encodes one request as a Messages stream. */
export class MessageStream extends StreamAnswer implements GenerationSink {
  readonly #blocks: BlockFrames;
  readonly #names: MessageNames;
  readonly #counts: MessageCounts;
  readonly #stopSequences: readonly string[];
  #bodies: ChatBodyReader | undefined;
  #stop: MessageStop = END_OF_TURN;
  #isStarted = false;

  constructor(call: InferenceCall, request: GenerationRequest, names: MessageNames, counts: MessageCounts) {
    // A stream that has to begin before its first event begins with comments: `ping` belongs inside of a message.
    super(call, requestIdHeader(names.requestId), () => (this.#isStarted ? PING_FRAME : COMMENT_FRAME));
    this.#blocks = new BlockFrames(this.out);
    this.#names = names;
    this.#counts = counts;
    this.#stopSequences = request.stop.stop ?? [];
    if (request.annotations.includes('request_id')) {
      this.out.annotate(annotationFrame('request_id', JSON.stringify(request.id)));
    }
  }

  text(_choice: number, text: string): void {
    if (this.isOver) return;
    if (!this.#isStarted) this.#start();
    if (text !== '') this.#blocks.text(text);
  }

  event(event: GenerationEvent): void {
    if (this.isOver) return;
    switch (event.kind) {
      case 'delta':
        this.text(event.choice, event.text);
        return;
      case 'finish':
        this.text(event.choice, event.text);
        this.#stop = messageStop(event, this.#stopSequences);
        return;
      case 'reasoning':
        if (!this.#isStarted) this.#start();
        if (event.text !== '') this.#blocks.thinking(event.text);
        return;
      case 'tool-call':
        if (!this.#isStarted) this.#start();
        this.#blocks.toolUse(event.index, toolUseId(this.call.deps.random.uuid()), event.name);
        return;
      case 'tool-arguments':
        if (this.#blocks.toolInput(event.index, event.text)) return;
        this.fail(
          workerError('BackendProtocol', `arguments of tool call ${event.index}, which is not the one under way`),
        );
        return;
      case 'annotation':
        this.out.annotate(preprocessorFrame(event.name, event.value));
        return;
      case 'body':
        this.#bodies ??= new ChatBodyReader(this);
        this.#bodies.read(event.body);
        return;
      case 'worker':
      case 'engine-data':
        return; // a message has no place for them
      default:
        assertNever(event);
    }
  }

  end(usage: Usage): void {
    if (this.isOver) return;
    this.#bodies?.end();
    if (!this.#isStarted) this.#start();
    this.close();
    this.#blocks.close();
    const { stop_reason, stop_sequence } = this.#stop;
    const delta = { type: 'message_delta', delta: { stop_reason, stop_sequence }, usage: this.#usageBody(usage) };
    this.out.write(eventFrame('message_delta', JSON.stringify(delta)));
    this.out.close(STOP_FRAME);
    this.call.succeed(usage);
  }

  protected override tell(error: ServeError): void {
    if (!this.out.isCommitted) {
      this.out.abandon();
      refuseMessages(this.call, error, this.#names.requestId);
      return;
    }
    this.out.close(eventFrame('error', JSON.stringify(anthropicErrorBody(error, this.#names.requestId))));
    this.call.fail(error, 200);
  }

  #start(): void {
    this.#isStarted = true;
    const usage = this.#usageBody({ ...this.#counts.running.usage, completionTokens: 0 });
    const message = messageBody(this.#names, [], undefined, usage);
    this.out.write(eventFrame('message_start', JSON.stringify({ type: 'message_start', message })));
    this.out.write(PING_FRAME);
  }

  #usageBody(usage: Usage): object {
    return messageUsage(usage, this.#counts.estimate);
  }
}

/** One server-sent event of a Messages stream; `json` is the text of its data. */
function eventFrame(type: string, json: string): string {
  return `event: ${type}\ndata: ${json}\n\n`;
}

/**
 * The content blocks of one Messages stream in the order of generation, one open at a time. A
 * delta is three strings put together; the first is built when its block opens.
 */
class BlockFrames {
  readonly #out: SseStream;
  #index = -1;
  #kind: BlockKind | undefined;
  /** Which of the engine's calls the open tool block is. */
  #toolIndex = -1;
  #deltaStart = '';

  constructor(out: SseStream) {
    this.#out = out;
  }

  /** The hot path. */
  text(text: string): void {
    if (this.#kind !== 'text') this.#open('text', TEXT_BLOCK);
    this.#delta(text);
  }

  thinking(text: string): void {
    if (this.#kind !== 'thinking') this.#open('thinking', THINKING_BLOCK);
    this.#delta(text);
  }

  /** @param index the engine's number of the call */
  toolUse(index: number, id: string, name: string): void {
    const block = `{"type":"tool_use","id":${JSON.stringify(id)},"name":${JSON.stringify(name)},"input":{}}`;
    this.#open('tool_use', block);
    this.#toolIndex = index;
  }

  /** False when that call is not the one whose block is open: a closed block cannot grow. */
  toolInput(index: number, text: string): boolean {
    if (this.#kind !== 'tool_use' || this.#toolIndex !== index) return false;
    if (text !== '') this.#delta(text);
    return true;
  }

  /** Ends the open block, if there is one. */
  close(): void {
    if (this.#kind === undefined) return;
    if (this.#kind === 'thinking') {
      const json = `{"type":"content_block_delta","index":${this.#index},"delta":${SIGNATURE_DELTA}}`;
      this.#out.write(eventFrame('content_block_delta', json));
    }
    this.#kind = undefined;
    this.#out.write(eventFrame('content_block_stop', `{"type":"content_block_stop","index":${this.#index}}`));
  }

  #open(kind: BlockKind, block: string): void {
    this.close();
    const index = ++this.#index;
    this.#kind = kind;
    this.#deltaStart = `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},"delta":{"type":${DELTAS[kind]}`;
    const json = `{"type":"content_block_start","index":${index},"content_block":${block}}`;
    this.#out.write(eventFrame('content_block_start', json));
  }

  #delta(text: string): void {
    this.#out.write(this.#deltaStart + JSON.stringify(text) + DELTA_END, isAscii(text));
  }
}
