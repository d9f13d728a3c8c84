import type {
  GenerationRequest,
  ServingWorkers,
  TextDelta,
  TextFinish,
  Usage,
  UsageReporting,
} from '../../../protocol/index.ts';
import type { Inference } from '../serve-inference.ts';
import { isAscii, StreamSink } from '../sinks/dialect-sink.ts';
import { chatLogprobs } from './choices.ts';
import { DispatchEvents } from './dispatch-events.ts';
import { NvextFields } from './nvext.ts';
import type { RunningUsage } from './running-usage.ts';
import {
  annotationFrame,
  type ChunkParts,
  hasUsage,
  preprocessorFrame,
  usageBody,
  type WireNames,
  withoutUsage,
  withWireNames,
} from './wire.ts';

/** Encodes one request as a chat completion stream. */
export class ChatStream extends StreamSink {
  readonly #chunks: ChatChunks;
  readonly #names: WireNames;
  readonly #nvext: NvextFields | undefined;
  readonly #dispatch: DispatchEvents | undefined;
  readonly #reporting: UsageReporting;
  /** Present with continuous usage. */
  readonly #running: RunningUsage | undefined;
  readonly #hasRole: boolean[] = [];
  /** Chunks of text alone can be put together from constants. */
  #isPlain: boolean;
  #sawBody = false;
  /** A chunk of the worker's own has told it. */
  #hasToldUsage = false;

  constructor(
    inference: Inference,
    request: GenerationRequest,
    names: WireNames,
    reporting: UsageReporting,
    running: RunningUsage | undefined,
  ) {
    super(inference);
    this.#names = names;
    this.#chunks = new ChatChunks(names, reporting.includesUsage);
    this.#nvext = NvextFields.for(request, inference);
    this.#dispatch = DispatchEvents.for(inference.deps.settings.dispatch);
    this.#reporting = reporting;
    this.#running = running;
    this.#isPlain = running === undefined && this.#nvext?.variesByChunk !== true;
    if (request.annotations.includes('request_id')) {
      this.out.annotate(annotationFrame('request_id', JSON.stringify(request.id)));
    }
  }

  override text(choice: number, text: string): void {
    if (this.#hasRole[choice] !== true) this.#writeRole(choice, '""');
    if (text === '') return;
    if (this.#dispatch !== undefined) this.#tellFirst(this.#dispatch.close(choice));
    if (this.#isPlain) this.out.write(this.#chunks.content(choice, text), this.#chunks.isAsciiContent(text));
    else this.#writeDelta(choice, `{"content":${JSON.stringify(text)}}`);
  }

  override delta(delta: TextDelta): void {
    this.#writeText(delta, undefined);
  }

  override finish(finish: TextFinish): void {
    this.#writeText(finish, finish);
  }

  override reasoning(choice: number, text: string): void {
    if (this.#dispatch !== undefined) this.#tellFirst(this.#dispatch.reasoning(choice, text));
    if (this.#hasRole[choice] !== true) this.#writeRole(choice, '""');
    this.#writeDelta(choice, `{"${this.inference.deps.settings.reasoningField}":${JSON.stringify(text)}}`);
  }

  override toolCall(choice: number, index: number, id: string, name: string): void {
    if (this.#dispatch !== undefined) this.#tellFirst(this.#dispatch.callStart(choice, index, id, name));
    if (this.#hasRole[choice] !== true) this.#writeRole(choice, 'null');
    const called = `"type":"function","function":{"name":${JSON.stringify(name)},"arguments":""}`;
    this.#writeDelta(choice, `{"tool_calls":[{"index":${index},"id":${JSON.stringify(id)},${called}}]}`);
  }

  override toolArguments(choice: number, index: number, text: string): void {
    this.#dispatch?.callArguments(choice, text);
    if (this.#hasRole[choice] !== true) this.#writeRole(choice, 'null');
    this.#writeDelta(choice, `{"tool_calls":[{"index":${index},"function":{"arguments":${JSON.stringify(text)}}}]}`);
  }

  override annotation(name: string, value: string): void {
    this.out.annotate(preprocessorFrame(name, value));
  }

  override worker(workers: ServingWorkers): void {
    this.#nvext?.worker(workers);
    this.#chunks.setNvext(this.#nvext?.take() ?? '');
  }

  override engineData(data: Readonly<Record<string, unknown>>): void {
    this.#nvext?.engineData(data);
    if (this.#nvext?.variesByChunk === true) this.#isPlain = false;
  }

  override body(body: unknown): void {
    this.#sawBody = true;
    const shown = this.#reporting.includesUsage ? body : withoutUsage(body);
    if (shown === undefined) return;
    this.#hasToldUsage ||= hasUsage(shown);
    this.out.write(`data: ${JSON.stringify(withWireNames(shown, this.#names))}\n\n`);
  }

  end(usage: Usage, finished: boolean): void {
    if (!this.close()) return;
    if (this.#nvext?.hasEngineData === true) this.#writeDelta(0, '{}');
    const isKnown = this.#sawBody ? usage.promptTokens > 0 : finished; // where a worker counts, it may have said nothing
    if (this.#reporting.includesUsage && isKnown && !this.#hasToldUsage) {
      this.out.write(this.#chunks.usage(JSON.stringify(usageBody(usage))));
    }
    this.out.finish();
    this.inference.succeed(usage);
  }

  /** @param finish the same where it ends the choice */
  #writeText({ choice, text, tokenIds, logprobs }: TextDelta, finish: TextFinish | undefined): void {
    if (this.#hasRole[choice] !== true) this.#writeRole(choice, '""');
    const told = chatLogprobs(logprobs);
    if (this.#dispatch !== undefined && (finish !== undefined || text !== '')) {
      this.#tellFirst(this.#dispatch.close(choice));
    }
    const nvext = this.#nvext?.take({ tokenIds, ...(finish && { finish: { stopReason: finish.stopReason } }) }) ?? '';
    if (finish === undefined && text === '' && told === null && nvext === '') return; // a part of a character
    this.#write(choice, text === '' ? '{}' : `{"content":${JSON.stringify(text)}}`, {
      nvext,
      ...(finish?.reason != null ? { finish: finish.reason } : {}),
      ...(told === null ? {} : { logprobs: JSON.stringify(told) }),
    });
  }

  /** Side events stand before the chunk that they complete. */
  #tellFirst(frames: string): void {
    if (frames !== '') this.out.write(frames);
  }

  /** The first chunk of a choice says who speaks, and only that. @param content JSON text */
  #writeRole(choice: number, content: string): void {
    this.#hasRole[choice] = true;
    this.#writeDelta(choice, `{"role":"assistant","content":${content}}`);
  }

  #writeDelta(choice: number, delta: string): void {
    this.#write(choice, delta, { nvext: this.#nvext?.take() ?? '' });
  }

  #write(choice: number, delta: string, parts: ChunkParts): void {
    const told =
      this.#running === undefined ? parts : { ...parts, usage: JSON.stringify(usageBody(this.#running.usage)) };
    this.out.write(this.#chunks.chunk(choice, delta, told));
  }
}

/**
 * The chunks of one chat stream as text. What does not change from chunk to chunk is built once a request; a content
 * chunk is then three strings put together.
 */
class ChatChunks {
  readonly #names: WireNames;
  #known: string | undefined;
  readonly #identity: string;
  #heads: string[] = [];
  #contentTail = '';
  #isTailAscii = true;
  readonly #plainUsage: string;

  /** @param showsNullUsage chunks before the usage chunk say `usage: null` */
  constructor(names: WireNames, showsNullUsage: boolean) {
    const { created, model } = names;
    this.#names = names;
    this.#identity = `,"created":${created},"model":${JSON.stringify(model)},"object":"chat.completion.chunk"`;
    this.#plainUsage = showsNullUsage ? ',"usage":null' : '';
    this.setNvext('');
  }

  /** Begins every chunk. The id is first asked for with the first of them. */
  get #start(): string {
    this.#known ??= `data: {"id":${JSON.stringify(this.#names.id)},"choices":[`;
    return this.#known;
  }

  /** Sets the `nvext` text that every plain content chunk carries from now on. */
  setNvext(nvext: string): void {
    this.#isTailAscii = isAscii(this.#identity) && isAscii(nvext);
    this.#contentTail = `},"finish_reason":null,"logprobs":null}]${this.#identity}${this.#plainUsage}${nvext}}\n\n`;
  }

  /** The hot path: a chunk with nothing but text. */
  content(choice: number, text: string): string {
    return this.#contentHead(choice) + JSON.stringify(text) + this.#contentTail;
  }

  /** Whether the chunk that `content` makes of `text` is all ASCII. */
  isAsciiContent(text: string): boolean {
    return this.#isTailAscii && isAscii(text);
  }

  /** Any chunk of one choice. `delta`, `logprobs` and `usage` are JSON text. */
  chunk(choice: number, delta: string, parts: ChunkParts): string {
    const finish = parts.finish === undefined ? 'null' : `"${parts.finish}"`;
    const usage = parts.usage === undefined ? this.#plainUsage : `,"usage":${parts.usage}`;
    return `${this.#start}{"index":${choice},"delta":${delta},"finish_reason":${finish},"logprobs":${
      parts.logprobs ?? 'null'
    }}]${this.#identity}${usage}${parts.nvext ?? ''}}\n\n`;
  }

  /** The chunk without choices that ends a stream with `include_usage`. */
  usage(usage: string): string {
    return `${this.#start}]${this.#identity},"usage":${usage}}\n\n`;
  }

  #contentHead(choice: number): string {
    const head = this.#heads[choice];
    if (head !== undefined) return head;
    for (let at = this.#heads.length; at <= choice; at++) {
      this.#heads.push(`${this.#start}{"index":${at},"delta":{"content":`);
    }
    return this.#heads[choice]!; // just filled up to it
  }
}
