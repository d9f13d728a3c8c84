import { anthropicErrorBody, type ServeError } from '../../../errors/index.ts';
import type { GenerationRequest, TextFinish, Usage } from '../../../protocol/index.ts';
import type { Inference } from '../serve-inference.ts';
import { annotationFrame, preprocessorFrame } from '../sinks/annotations.ts';
import { ChatBodyReader } from '../sinks/chat-body-reader.ts';
import { COMMENT_FRAME, isAscii, type SseStream, StreamSink } from '../sinks/dialect-sink.ts';
import type { WireNames } from '../sinks/response-names.ts';
import type { RunningUsage } from '../sinks/running-usage.ts';
import {
  anthropicRequestId,
  END_OF_TURN,
  type MessageStop,
  messageBody,
  messageStop,
  messageUsage,
  notUnderWay,
  refuseMessages,
  requestIdHeader,
  SIGNATURE,
  toolUseId,
} from './wire.ts';

type BlockKind = 'text' | 'thinking' | 'tool_use';

const DELTAS: Readonly<Record<BlockKind, string>> = {
  text: '"text_delta","text":',
  thinking: '"thinking_delta","thinking":',
  tool_use: '"input_json_delta","partial_json":',
};

const DELTA_END = '}}\n\n';

const TEXT_BLOCK = '{"type":"text","text":""}';

const THINKING_BLOCK = '{"type":"thinking","thinking":"","signature":""}';

const SIGNATURE_DELTA = `{"type":"signature_delta","signature":"${SIGNATURE}"}`;

const PING_FRAME = eventFrame('ping', '{"type":"ping"}');
const STOP_FRAME = eventFrame('message_stop', '{"type":"message_stop"}');

/** Encodes one request as a Messages stream. A message has no place for the data of workers and engines. */
export class MessageStream extends StreamSink {
  readonly #blocks: BlockEvents;
  readonly #names: WireNames;
  readonly #requestId: string;
  readonly #running: RunningUsage;
  readonly #stopSequences: readonly string[];
  #bodies: ChatBodyReader | undefined;
  #stop: MessageStop = END_OF_TURN;
  #isStarted = false;

  constructor(inference: Inference, request: GenerationRequest, names: WireNames, running: RunningUsage) {
    // A stream that has to begin before its first event begins with comments: `ping` belongs inside of a message.
    const requestId = anthropicRequestId(request.id);
    super(inference, requestIdHeader(requestId), () => (this.#isStarted ? PING_FRAME : COMMENT_FRAME));
    this.#blocks = new BlockEvents(this.out);
    this.#names = names;
    this.#requestId = requestId;
    this.#running = running;
    this.#stopSequences = request.stop.stop ?? [];
    if (request.annotations.includes('request_id')) {
      this.out.annotate(annotationFrame('request_id', JSON.stringify(request.id)));
    }
  }

  override text(_choice: number, text: string): void {
    if (!this.#isStarted) this.#start();
    if (text !== '') this.#blocks.text(text);
  }

  override finish(finish: TextFinish): void {
    this.text(finish.choice, finish.text);
    this.#stop = messageStop(finish, this.#stopSequences);
  }

  override reasoning(_choice: number, text: string): void {
    if (!this.#isStarted) this.#start();
    if (text !== '') this.#blocks.thinking(text);
  }

  override toolCall(_choice: number, index: number, _id: string, name: string): void {
    if (!this.#isStarted) this.#start();
    this.#blocks.toolUse(index, toolUseId(this.inference.deps.random.uuid()), name);
  }

  override toolArguments(_choice: number, index: number, text: string): void {
    if (!this.#blocks.toolInput(index, text)) this.fail(notUnderWay(index));
  }

  override annotation(name: string, value: string): void {
    this.out.annotate(preprocessorFrame(name, value));
  }

  override body(body: unknown): void {
    if (this.isOver) return;
    this.#bodies ??= new ChatBodyReader(this);
    this.#bodies.read(body);
  }

  end(usage: Usage): void {
    if (this.isOver) return;
    this.#bodies?.end();
    if (!this.#isStarted) this.#start();
    this.close();
    this.#blocks.close();
    const { stop_reason, stop_sequence } = this.#stop;
    const delta = { type: 'message_delta', delta: { stop_reason, stop_sequence }, usage: messageUsage(usage) };
    this.out.write(eventFrame('message_delta', JSON.stringify(delta)));
    this.out.close(STOP_FRAME);
    this.inference.succeed(usage);
  }

  protected override tell(error: ServeError): void {
    if (!this.out.isCommitted) {
      this.out.abandon();
      refuseMessages(this.inference, error, this.#requestId);
      return;
    }
    this.out.close(eventFrame('error', JSON.stringify(anthropicErrorBody(error, this.#requestId))));
    this.inference.fail(error, 200);
  }

  #start(): void {
    this.#isStarted = true;
    const usage = messageUsage({ ...this.#running.usage, completionTokens: 0 });
    const message = messageBody(this.#names, [], undefined, usage);
    this.out.write(eventFrame('message_start', JSON.stringify({ type: 'message_start', message })));
    this.out.write(PING_FRAME);
  }
}

/** Returns one server-sent event of a Messages stream. @param json text of its data */
function eventFrame(type: string, json: string): string {
  return `event: ${type}\ndata: ${json}\n\n`;
}

/**
 * Writes the content blocks of one Messages stream in the order of generation, with one open at a time. A delta is
 * three strings put together; the first is built when its block opens.
 */
class BlockEvents {
  readonly #out: SseStream;
  #index = -1;
  #kind: BlockKind | undefined;
  /** The engine's number of the call in the open tool block. */
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

  /** Opens the block of a tool call. @param index the engine's number of the call */
  toolUse(index: number, id: string, name: string): void {
    const block = `{"type":"tool_use","id":${JSON.stringify(id)},"name":${JSON.stringify(name)},"input":{}}`;
    this.#open('tool_use', block);
    this.#toolIndex = index;
  }

  /** Writes arguments of a call. Returns false if its block is not the open one, because a closed block cannot grow. */
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
