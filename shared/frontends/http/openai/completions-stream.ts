import type { ServeError } from '../../../errors/index.ts';
import type { GenerationRequest, ServingWorkers, TextDelta, TextFinish, Usage } from '../../../protocol/index.ts';
import type { Inference } from '../serve-inference.ts';
import { BatchPart, BatchUsage, isAscii, StreamSink } from '../sinks/dialect-sink.ts';
import { completionLogprobs } from './choices.ts';
import type { CompletionsParts } from './completions.ts';
import { NvextFields } from './nvext.ts';
import type { RunningUsage } from './running-usage.ts';
import {
  annotationFrame,
  type ChunkParts,
  hasUsage,
  preprocessorFrame,
  StreamNames,
  usageBody,
  type WireNames,
  withFirstChoice,
  withoutUsage,
  withWireNames,
} from './wire.ts';

/**
 * Encodes a batch of prompts as one completions stream. Each prompt writes through its
 * own `PromptStream`; the first failure ends all of them, the last end ends the stream.
 */
export class CompletionsStream extends StreamSink {
  readonly #parts: CompletionsParts;
  readonly #usage: BatchUsage;
  #isUntold = false;

  constructor(inference: Inference, parts: CompletionsParts) {
    super(inference);
    this.#parts = parts;
    const { requests, id } = parts.decoded;
    this.#usage = new BatchUsage(requests.length);
    if (requests[0]?.annotations.includes('request_id')) {
      this.out.annotate(annotationFrame('request_id', JSON.stringify(id)));
    }
  }

  /** The sink of one prompt. */
  prompt(index: number, running: RunningUsage | undefined): PromptStream {
    const { names, decoded } = this.#parts;
    const { requests } = decoded;
    const request = requests[index]!; // the caller counts over the same array
    return new PromptStream(this, this.inference, request, {
      names: new StreamNames(this.inference, `cmpl-${request.id}`, names.model, requests.length > 1),
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
    if (whole !== undefined) this.end(whole);
  }

  end(usage: Usage): void {
    this.close();
    if (this.#parts.decoded.includesUsage && this.#isUntold) {
      const chunks = new CompletionsChunks(this.#parts.names, 0);
      this.out.write(chunks.usage(JSON.stringify(usageBody(usage))));
    }
    this.out.finish();
    this.inference.succeed(usage);
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

/** Encodes one prompt of a completions stream. Nothing is parsed on this route: there is no reasoning and no tool call. */
class PromptStream extends BatchPart<CompletionsStream> {
  readonly #chunks: CompletionsChunks;
  readonly #options: PromptStreamOptions;
  readonly #nvext: NvextFields | undefined;
  readonly #hasEchoed: boolean[] = [];
  #isPlain: boolean;
  #sawBody = false;
  #hasToldUsage = false;

  constructor(
    batch: CompletionsStream,
    inference: Inference,
    request: GenerationRequest,
    options: PromptStreamOptions,
  ) {
    super(batch);
    const { names, firstChoice, running, echo } = options;
    this.#options = options;
    this.#chunks = new CompletionsChunks(names, firstChoice);
    this.#nvext = NvextFields.for(request, inference);
    this.#isPlain = running === undefined && echo === undefined && !this.#nvext?.variesByChunk;
  }

  override text(choice: number, text: string): void {
    if (this.#isPlain) {
      if (text !== '') this.batch.write(this.#chunks.content(choice, text), this.#chunks.isAsciiContent(text));
      return;
    }
    const shown = this.#echoed(choice, text);
    const nvext = this.#nvext?.take() ?? '';
    if (shown !== '') this.#write(choice, shown, { nvext });
  }

  override delta(delta: TextDelta): void {
    this.#writeText(delta, undefined);
  }

  override finish(finish: TextFinish): void {
    this.#writeText(finish, finish);
  }

  override annotation(name: string, value: string): void {
    if (name === 'formatted_prompt') return; // only what a template rendered is shown
    this.batch.annotate(preprocessorFrame(name, value));
  }

  override worker(workers: ServingWorkers): void {
    this.#nvext?.worker(workers);
    this.#chunks.setNvext(this.#nvext?.take() ?? '');
  }

  override engineData(data: Readonly<Record<string, unknown>>): void {
    this.#nvext?.engineData(data);
    if (this.#nvext?.variesByChunk) this.#isPlain = false;
  }

  override body(body: unknown): void {
    const { names, firstChoice, showsWorkerUsage } = this.#options;
    this.#sawBody = true;
    const shown = showsWorkerUsage ? body : withoutUsage(body);
    if (shown === undefined) return;
    this.#hasToldUsage ||= hasUsage(shown);
    this.batch.write(`data: ${JSON.stringify(withWireNames(withFirstChoice(shown, firstChoice), names))}\n\n`);
  }

  end(usage: Usage, finished: boolean): void {
    const isKnown = this.#sawBody ? usage.promptTokens > 0 : finished; // where a worker counts, it may have said nothing
    this.batch.promptEnded(usage, isKnown && !this.#hasToldUsage);
  }

  /** @param finish the same where it ends the choice */
  #writeText({ choice, text, tokenIds, logprobs }: TextDelta, finish: TextFinish | undefined): void {
    const shown = this.#echoed(choice, text);
    const nvext = this.#nvext?.take({ tokenIds, ...(finish && { finish: { stopReason: finish.stopReason } }) }) ?? '';
    const hasLogprobs = logprobs !== undefined && logprobs.length > 0;
    if (finish === undefined && shown === '' && !hasLogprobs && nvext === '') return; // a part of a character
    this.#write(choice, shown, {
      nvext,
      ...(finish?.reason != null ? { finish: finish.reason } : {}),
      ...(hasLogprobs ? { logprobs: JSON.stringify(completionLogprobs(logprobs)) } : {}),
    });
  }

  #write(choice: number, text: string, parts: ChunkParts): void {
    const { running } = this.#options;
    const told = running === undefined ? parts : { ...parts, usage: JSON.stringify(usageBody(running.usage)) };
    this.batch.write(this.#chunks.chunk(choice, text, told));
  }

  /** The prompt stands in front of each choice's first text. */
  #echoed(choice: number, text: string): string {
    const { echo } = this.#options;
    if (echo === undefined || this.#hasEchoed[choice] === true) return text;
    this.#hasEchoed[choice] = true;
    return echo + text;
  }
}

/** The chunks of one prompt of a completions stream as text; constants are built once. */
class CompletionsChunks {
  readonly #names: WireNames;
  #known: string | undefined;
  readonly #identity: string;
  readonly #firstChoice: number;
  readonly #contentTails: string[] = [];
  #nvext = '';
  #areTailsAscii: boolean;

  /** @param firstChoice index of the prompt's first choice in the whole batch */
  constructor(names: WireNames, firstChoice: number) {
    const { created, model } = names;
    this.#names = names;
    this.#identity =
      `],"created":${created},"model":${JSON.stringify(model)},` +
      '"system_fingerprint":null,"object":"text_completion","usage":';
    this.#firstChoice = firstChoice;
    this.#areTailsAscii = isAscii(this.#identity);
  }

  /** Begins every chunk. The id is first asked for with the first of them. */
  get #start(): string {
    this.#known ??= `data: {"id":${JSON.stringify(this.#names.id)},"choices":[`;
    return this.#known;
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
  chunk(choice: number, text: string, parts: ChunkParts): string {
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
