import { assertNever, type ServeError } from '../../../errors/index.ts';
import type { GenerationEvent, GenerationRequest, GenerationSink, Usage } from '../../../protocol/generation/index.ts';
import { isAscii } from '../answers/ascii.ts';
import { StreamAnswer } from '../answers/stream-answer.ts';
import type { InferenceCall } from '../inference-call.ts';
import { annotationFrame, preprocessorFrame } from './annotation-frame.ts';
import type { CompletionsParts } from './completions-parts.ts';
import { completionLogprobs } from './logprobs-json.ts';
import { NvextAnswer } from './nvext-answer.ts';
import type { RunningUsage } from './running-usage.ts';
import { BatchUsage, hasUsage, usageBody, withoutUsage } from './usage-json.ts';
import { type WireNames, withFirstChoice, withWireNames } from './wire-names.ts';

interface CompletionsChunkParts {
  readonly finish?: string;
  readonly logprobs?: string;
  readonly usage?: string;
  /** `,"nvext":{...}` or nothing. */
  readonly nvext?: string;
}

/**
 * Encodes a batch of prompts as one completions stream. Each prompt writes through its
 * own `PromptStream`; the first failure ends all of them, the last end ends the answer.
 */
export class CompletionsStream extends StreamAnswer {
  readonly #parts: CompletionsParts;
  readonly #usage: BatchUsage;
  #isUntold = false;

  constructor(call: InferenceCall, parts: CompletionsParts) {
    super(call);
    this.#parts = parts;
    const { requests, id } = parts.decoded;
    this.#usage = new BatchUsage(requests.length);
    if (requests[0]?.annotations.includes('request_id')) {
      this.out.annotate(annotationFrame('request_id', JSON.stringify(id)));
    }
  }

  /** The sink of one prompt. */
  prompt(index: number, running: RunningUsage | undefined): PromptStream {
    const request = this.#parts.decoded.requests[index]!; // the caller counts over the same array
    return new PromptStream(this, this.call, request, {
      names: { ...this.#parts.names, id: `cmpl-${request.id}` },
      firstChoice: index * this.#parts.decoded.choicesPerPrompt,
      echo: this.#parts.echoes?.[index],
      // Of several prompts the client reads one sum instead.
      showsWorkerUsage: this.#parts.decoded.includesUsage && this.#parts.decoded.requests.length === 1,
      running,
    });
  }

  write(frame: string, isKnownAscii?: boolean): void {
    this.out.write(frame, isKnownAscii);
  }

  annotate(frame: string): void {
    this.out.annotate(frame);
  }

  /** One prompt has ended. @param isUntold its usage is known, and the client has not been told it */
  promptEnded(usage: Usage, isUntold: boolean): void {
    if (this.isOver) return;
    this.#isUntold ||= isUntold;
    const whole = this.#usage.ended(usage);
    if (whole === undefined) return;
    this.close();
    if (this.#parts.decoded.includesUsage && this.#isUntold) {
      const { id, created, model } = this.#parts.names;
      const frames = new CompletionsFrames(id, created, model, 0);
      this.out.write(frames.usage(JSON.stringify(usageBody(whole))));
    }
    this.out.finish();
    this.call.succeed(whole);
  }

  protected override tell(error: ServeError): void {
    super.tell(error);
    this.#parts.cancel();
  }
}

interface PromptStreamOptions {
  readonly names: WireNames;
  readonly firstChoice: number;
  readonly echo: string | undefined;
  readonly showsWorkerUsage: boolean;
  readonly running: RunningUsage | undefined;
}

type TextEvent = Extract<GenerationEvent, { readonly kind: 'delta' | 'finish' }>;

/** Encodes one prompt of a completions stream. */
class PromptStream implements GenerationSink {
  readonly #batch: CompletionsStream;
  readonly #frames: CompletionsFrames;
  readonly #names: WireNames;
  readonly #nvext: NvextAnswer | undefined;
  readonly #firstChoice: number;
  readonly #echo: string | undefined;
  readonly #hasEchoed: boolean[] = [];
  readonly #running: RunningUsage | undefined;
  readonly #showsWorkerUsage: boolean;
  #isPlain: boolean;
  #sawBody = false;
  #hasToldUsage = false;

  constructor(batch: CompletionsStream, call: InferenceCall, request: GenerationRequest, options: PromptStreamOptions) {
    const { names } = options;
    this.#batch = batch;
    this.#names = names;
    this.#frames = new CompletionsFrames(names.id, names.created, names.model, options.firstChoice);
    this.#nvext = NvextAnswer.for(request, call);
    this.#firstChoice = options.firstChoice;
    this.#echo = options.echo;
    this.#running = options.running;
    this.#showsWorkerUsage = options.showsWorkerUsage;
    this.#isPlain = options.running === undefined && options.echo === undefined && !this.#nvext?.variesByChunk;
  }

  text(choice: number, text: string): void {
    if (this.#batch.isOver) return;
    if (this.#isPlain) {
      if (text !== '') this.#batch.write(this.#frames.content(choice, text), this.#frames.isAsciiContent(text));
      return;
    }
    const shown = this.#echoed(choice, text);
    const nvext = this.#nvext?.take() ?? '';
    if (shown === '') return;
    this.#batch.write(this.#frames.chunk(choice, shown, { nvext, ...this.#continuousUsage() }));
  }

  event(event: GenerationEvent): void {
    if (this.#batch.isOver) return;
    switch (event.kind) {
      case 'delta':
      case 'finish':
        this.#writeText(event);
        return;
      case 'annotation':
        if (event.name === 'formatted_prompt') return; // only what a template rendered is shown
        this.#batch.annotate(preprocessorFrame(event.name, event.value));
        return;
      case 'worker':
        this.#nvext?.worker(event);
        this.#frames.setNvext(this.#nvext?.take() ?? '');
        return;
      case 'engine-data':
        this.#nvext?.engineData(event.data);
        if (this.#nvext?.variesByChunk) this.#isPlain = false;
        return;
      case 'body':
        this.#writeBody(event.body);
        return;
      case 'reasoning':
      case 'tool-call':
      case 'tool-arguments':
        return; // nothing is parsed on this route, so these do not happen
      default:
        assertNever(event);
    }
  }

  end(usage: Usage, finished: boolean): void {
    const isKnown = this.#sawBody ? usage.promptTokens > 0 : finished; // where a worker counts, it may have said nothing
    this.#batch.promptEnded(usage, isKnown && !this.#hasToldUsage);
  }

  fail(error: ServeError): void {
    this.#batch.fail(error);
  }

  isBlocked(): boolean {
    return this.#batch.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.#batch.onUnblocked(callback);
  }

  #writeBody(body: unknown): void {
    this.#sawBody = true;
    const shown = this.#showsWorkerUsage ? body : withoutUsage(body);
    if (shown === undefined) return;
    this.#hasToldUsage ||= hasUsage(shown);
    this.#batch.write(
      `data: ${JSON.stringify(withWireNames(withFirstChoice(shown, this.#firstChoice), this.#names))}\n\n`,
    );
  }

  #writeText(event: TextEvent): void {
    const { choice } = event;
    const text = this.#echoed(choice, event.text);
    const isFinish = event.kind === 'finish';
    const nvext =
      this.#nvext?.take(
        isFinish
          ? { tokenIds: event.tokenIds, finish: { stopReason: event.stopReason } }
          : { tokenIds: event.tokenIds },
      ) ?? '';
    const hasLogprobs = event.logprobs !== undefined && event.logprobs.length > 0;
    if (!isFinish && text === '' && !hasLogprobs && nvext === '') return; // a part of a character
    this.#batch.write(
      this.#frames.chunk(choice, text, {
        nvext,
        ...(isFinish && event.reason !== null ? { finish: event.reason } : {}),
        ...(hasLogprobs ? { logprobs: JSON.stringify(completionLogprobs(event.logprobs)) } : {}),
        ...this.#continuousUsage(),
      }),
    );
  }

  /** The prompt stands in front of each choice's first text. */
  #echoed(choice: number, text: string): string {
    if (this.#echo === undefined || this.#hasEchoed[choice] === true) return text;
    this.#hasEchoed[choice] = true;
    return this.#echo + text;
  }

  #continuousUsage(): { readonly usage?: string } {
    return this.#running === undefined ? NO_USAGE : { usage: JSON.stringify(usageBody(this.#running.usage)) };
  }
}

const NO_USAGE = Object.freeze({});

/** The chunks of one prompt of a completions stream as text; constants are built once. */
class CompletionsFrames {
  readonly #start: string;
  readonly #identity: string;
  readonly #firstChoice: number;
  readonly #contentTails: string[] = [];
  #nvext = '';
  #areTailsAscii: boolean;

  /** @param firstChoice index of the prompt's first choice in the whole answer */
  constructor(id: string, created: number, model: string, firstChoice: number) {
    this.#start = `data: {"id":${JSON.stringify(id)},"choices":[`;
    this.#identity =
      `],"created":${created},"model":${JSON.stringify(model)},` +
      '"system_fingerprint":null,"object":"text_completion","usage":';
    this.#firstChoice = firstChoice;
    this.#areTailsAscii = isAscii(this.#identity);
  }

  /** Sets the `nvext` text that every plain content chunk carries from now on. */
  setNvext(nvext: string): void {
    this.#nvext = nvext;
    this.#contentTails.length = 0;
    this.#areTailsAscii = isAscii(this.#identity) && isAscii(nvext);
  }

  /** The hot path: a chunk with nothing but text. */
  content(choice: number, text: string): string {
    return `${this.#start}{"text":${JSON.stringify(text)}${this.#contentTails[choice] ?? this.#makeTail(choice)}`;
  }

  /** Whether the chunk that `content` makes of `text` is all ASCII. */
  isAsciiContent(text: string): boolean {
    return this.#areTailsAscii && isAscii(text);
  }

  /** Any chunk of one choice; `logprobs`, `usage` and `nvext` are JSON text. */
  chunk(choice: number, text: string, parts: CompletionsChunkParts): string {
    const logprobs = parts.logprobs === undefined ? '' : `,"logprobs":${parts.logprobs}`;
    const finish = parts.finish === undefined ? '' : `,"finish_reason":"${parts.finish}"`;
    const index = this.#firstChoice + choice;
    return `${this.#start}{"text":${JSON.stringify(text)},"index":${index}${logprobs}${finish}}${this.#identity}${
      parts.usage ?? 'null'
    }${parts.nvext ?? ''}}\n\n`;
  }

  /** The chunk without choices that ends a stream with `include_usage`. */
  usage(usage: string): string {
    return `${this.#start}${this.#identity}${usage}}\n\n`;
  }

  #makeTail(choice: number): string {
    const tail = `,"index":${this.#firstChoice + choice}}${this.#identity}null${this.#nvext}}\n\n`;
    this.#contentTails[choice] = tail;
    return tail;
  }
}
