import { assertNever } from '../../../errors/index.ts';
import type { GenerationEvent, GenerationRequest, GenerationSink, Usage } from '../../../protocol/generation/index.ts';
import type { UsageReporting } from '../../../protocol/openai/index.ts';
import { isAscii } from '../answers/ascii.ts';
import { StreamAnswer } from '../answers/stream-answer.ts';
import type { InferenceCall } from '../inference-call.ts';
import { annotationFrame, preprocessorFrame } from './annotation-frame.ts';
import { DispatchEvents } from './dispatch-events.ts';
import { chatLogprobs } from './logprobs-json.ts';
import { NvextAnswer, type NvextChunk } from './nvext-answer.ts';
import type { RunningUsage } from './running-usage.ts';
import { hasUsage, usageBody, withoutUsage } from './usage-json.ts';
import { type WireNames, withWireNames } from './wire-names.ts';

/** What a chunk carries beside its delta; all JSON text. */
interface ChunkParts {
  readonly finish?: string;
  readonly logprobs?: string;
  /** Replaces the stream's `usage: null`. */
  readonly usage?: string;
  /** `,"nvext":{...}` or nothing. */
  readonly nvext?: string;
}

const NO_PARTS: ChunkParts = {};

type TextEvent = Extract<GenerationEvent, { readonly kind: 'delta' | 'finish' }>;

/** Encodes one request as a chat completion stream. */
export class ChatStream extends StreamAnswer implements GenerationSink {
  readonly #frames: ChatFrames;
  readonly #names: WireNames;
  readonly #nvext: NvextAnswer | undefined;
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
    call: InferenceCall,
    request: GenerationRequest,
    names: WireNames,
    reporting: UsageReporting,
    running: RunningUsage | undefined,
  ) {
    super(call);
    this.#names = names;
    this.#frames = new ChatFrames(names.id, names.created, names.model, reporting.includesUsage);
    this.#nvext = NvextAnswer.for(request, call);
    this.#dispatch = DispatchEvents.for(call.deps.settings.dispatch);
    this.#reporting = reporting;
    this.#running = running;
    this.#isPlain = running === undefined && this.#nvext?.variesByChunk !== true;
    if (request.annotations.includes('request_id')) {
      this.out.annotate(annotationFrame('request_id', JSON.stringify(request.id)));
    }
  }

  text(choice: number, text: string): void {
    if (this.isOver) return;
    if (this.#hasRole[choice] !== true) this.#writeRole(choice, false);
    if (text !== '' && this.#dispatch !== undefined) this.#tell(this.#dispatch.close(choice));
    if (text === '') {
    } else if (this.#isPlain) {
      this.out.write(this.#frames.content(choice, text), this.#frames.isAsciiContent(text));
    } else {
      this.#writeDelta(choice, `{"content":${JSON.stringify(text)}}`);
    }
  }

  event(event: GenerationEvent): void {
    if (this.isOver) return;
    switch (event.kind) {
      case 'delta':
      case 'finish':
        this.#writeText(event);
        return;
      case 'reasoning': {
        if (this.#dispatch !== undefined) this.#tell(this.#dispatch.reasoning(event.choice, event.text));
        const field = this.call.deps.settings.reasoningField;
        this.#openAndWrite(event.choice, `{"${field}":${JSON.stringify(event.text)}}`, false);
        return;
      }
      case 'tool-call': {
        if (this.#dispatch !== undefined) {
          this.#tell(this.#dispatch.callStart(event.choice, event.index, event.id, event.name));
        }
        const call = `"type":"function","function":{"name":${JSON.stringify(event.name)},"arguments":""}`;
        const head = `{"tool_calls":[{"index":${event.index},"id":${JSON.stringify(event.id)},${call}}]}`;
        this.#openAndWrite(event.choice, head, true);
        return;
      }
      case 'tool-arguments': {
        this.#dispatch?.callArguments(event.choice, event.text);
        const text = JSON.stringify(event.text);
        const delta = `{"tool_calls":[{"index":${event.index},"function":{"arguments":${text}}}]}`;
        this.#openAndWrite(event.choice, delta, true);
        return;
      }
      case 'annotation':
        this.out.annotate(preprocessorFrame(event.name, event.value));
        return;
      case 'worker':
        this.#nvext?.worker(event);
        this.#frames.setNvext(this.#nvext?.take() ?? '');
        return;
      case 'engine-data':
        this.#nvext?.engineData(event.data);
        if (this.#nvext?.variesByChunk === true) this.#isPlain = false;
        return;
      case 'body':
        this.#writeBody(event.body);
        return;
      default:
        assertNever(event);
    }
  }

  end(usage: Usage, finished: boolean): void {
    if (!this.close()) return;
    if (this.#nvext?.hasEngineData === true) this.#writeDelta(0, '{}');
    const isKnown = this.#sawBody ? usage.promptTokens > 0 : finished; // where a worker counts, it may have said nothing
    if (this.#reporting.includesUsage && isKnown && !this.#hasToldUsage) {
      this.out.write(this.#frames.usage(JSON.stringify(usageBody(usage))));
    }
    this.out.finish();
    this.call.succeed(usage);
  }

  #writeBody(body: unknown): void {
    this.#sawBody = true;
    const shown = this.#reporting.includesUsage ? body : withoutUsage(body);
    if (shown === undefined) return;
    this.#hasToldUsage ||= hasUsage(shown);
    this.out.write(`data: ${JSON.stringify(withWireNames(shown, this.#names))}\n\n`);
  }

  #writeText(event: TextEvent): void {
    const { choice, text } = event;
    if (this.#hasRole[choice] !== true) this.#writeRole(choice, false);
    const logprobs = chatLogprobs(event.logprobs);
    const isFinish = event.kind === 'finish';
    if (this.#dispatch !== undefined && (isFinish || text !== '')) this.#tell(this.#dispatch.close(choice));
    const chunk: NvextChunk = isFinish
      ? { tokenIds: event.tokenIds, finish: { stopReason: event.stopReason } }
      : { tokenIds: event.tokenIds };
    const nvext = this.#nvext?.take(chunk) ?? '';
    if (!isFinish && text === '' && logprobs === null && nvext === '') return; // a part of a character
    const delta = text === '' ? '{}' : `{"content":${JSON.stringify(text)}}`;
    this.out.write(
      this.#frames.chunk(choice, delta, {
        nvext,
        ...(isFinish && event.reason !== null ? { finish: event.reason } : {}),
        ...(logprobs === null ? {} : { logprobs: JSON.stringify(logprobs) }),
        ...this.#continuousUsage(),
      }),
    );
  }

  #tell(frames: string): void {
    if (frames !== '') this.out.write(frames);
  }

  #openAndWrite(choice: number, delta: string, isToolCall: boolean): void {
    if (this.#hasRole[choice] !== true) this.#writeRole(choice, isToolCall);
    this.#writeDelta(choice, delta);
  }

  #writeDelta(choice: number, delta: string): void {
    const nvext = this.#nvext?.take() ?? '';
    this.out.write(this.#frames.chunk(choice, delta, { nvext, ...this.#continuousUsage() }));
  }

  /** The first chunk of a choice says who speaks, and only that. */
  #writeRole(choice: number, isToolCall: boolean): void {
    this.#hasRole[choice] = true;
    const content = isToolCall ? 'null' : '""';
    const nvext = this.#nvext?.take() ?? '';
    const delta = `{"role":"assistant","content":${content}}`;
    this.out.write(this.#frames.chunk(choice, delta, { nvext, ...this.#continuousUsage() }));
  }

  #continuousUsage(): { readonly usage?: string } {
    return this.#running === undefined ? NO_USAGE : { usage: JSON.stringify(usageBody(this.#running.usage)) };
  }
}

const NO_USAGE = Object.freeze({});

/**
 * The chunks of one chat stream as text. What does not change from chunk to chunk is built once a request; a content
 * chunk is then three strings put together.
 */
class ChatFrames {
  readonly #start: string;
  readonly #identity: string;
  #heads: string[] = [];
  #contentTail = '';
  #isTailAscii = true;
  readonly #plainUsage: string;

  /** @param showsNullUsage chunks before the usage chunk say `usage: null` */
  constructor(id: string, created: number, model: string, showsNullUsage: boolean) {
    this.#start = `data: {"id":${JSON.stringify(id)},"choices":[`;
    this.#identity = `,"created":${created},"model":${JSON.stringify(model)},"object":"chat.completion.chunk"`;
    this.#plainUsage = showsNullUsage ? ',"usage":null' : '';
    this.setNvext('');
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
  chunk(choice: number, delta: string, parts: ChunkParts = NO_PARTS): string {
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
