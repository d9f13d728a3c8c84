import type { Timer } from '../../../clock/index.ts';
import { openAiStreamError, ServeError, toServeError } from '../../../errors/index.ts';
import type { Usage } from '../../../protocol/index.ts';
import { DialectSink } from '../../inference/dialect.ts';
import type { FrameSink } from '../exchange/exchange.ts';
import type { Inference } from '../serve-inference.ts';
import { EVENT_STREAM, sendError } from './send.ts';

/*
 * How a token reaches the socket. The pipeline calls a `GenerationSink`: of chats and completions one for each prompt
 * (`PromptStream`, which has a subclass for each of the two), otherwise one for the request. That sink makes a frame
 * and writes it to the `SseStream` of the response, which writes to the host's `FrameSink`. What ends a response,
 * however it ends, is in `DialectSink`; `StreamSink` and `WholeSink` add the stream and the object that a response is
 * written as.
 */

/** Comment frame that shows proxies and clients that the stream lives. */
export const COMMENT_FRAME = ':\n\n';
/** Frame that ends a stream of OpenAI's dialects. */
export const DONE_FRAME = 'data: [DONE]\n\n';
/** Keep-alive of a stream that was committed without an event and has none configured. */
const WAITING_KEEP_ALIVE_MS = 10_000;
/** Number of leading annotations that are held back with the head. */
const HELD_FRAMES_MAX = 16;

/**
 * The server-sent events of one response, with the status held back until it is known.
 *
 * | State | first data frame | failure | peek time over | end | client gone |
 * |---|---|---|---|---|---|
 * | waiting | committed: 200 | its HTTP status | committed: 200, comment | 200, last frame | closed |
 * | committed | - | error event, `[DONE]` | - | last frame | closed |
 */
export class SseStream {
  readonly #inference: Inference;
  readonly #sink: FrameSink;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #keepAliveFrame: () => string;
  #isCommitted = false;
  #isClosed = false;
  #held: (string | (() => string))[] = [];
  #peek: Timer | undefined;
  #keepAlive: Timer | undefined;
  /** No frame has left since the last keep-alive tick. */
  #isIdle = true;

  /**
   * @param headers sent besides the usual ones
   * @param keepAliveFrame returns the frame of an idle stream; a comment if the dialect has no such frame
   */
  constructor(
    inference: Inference,
    headers: Readonly<Record<string, string>> = {},
    keepAliveFrame: () => string = () => COMMENT_FRAME,
  ) {
    this.#inference = inference;
    this.#sink = inference.exchange.sink;
    this.#headers = headers;
    this.#keepAliveFrame = keepAliveFrame;
    const { peekMs } = inference.deps.settings;
    if (peekMs > 0) this.#peek = inference.deps.clock.after(peekMs, () => this.#commitWaiting());
    else this.#commitWaiting();
  }

  /** Whether the head has left, so that a failure can only be an event of the stream. */
  get isCommitted(): boolean {
    return this.#isCommitted;
  }

  /** The hot path: queues one ready-made frame. After the end of the stream frames are ignored. */
  write(frame: string, isKnownAscii = false): void {
    if (this.#isClosed) return;
    if (!this.#isCommitted) this.#commit();
    this.#isIdle = false;
    this.#sink.write(frame, isKnownAscii);
  }

  /**
   * Queues a frame that leaves the status open: annotations come before a worker was asked.
   * @param frame the frame, or a function that makes it when it leaves
   */
  annotate(frame: string | (() => string)): void {
    if (this.#isCommitted || this.#held.length >= HELD_FRAMES_MAX) this.write(textOf(frame));
    else this.#held.push(frame);
  }

  /** Ends a stream that has not ended with a failure. Returns the status: 200 once the head has left. */
  fail(error: ServeError): number {
    const isCommitted = this.#isCommitted;
    this.abandon();
    const { exchange, deps } = this.#inference;
    if (!isCommitted) return sendError(exchange, error, deps.settings.overloadStatus);
    this.#sink.write(openAiStreamError(error));
    this.#sink.end();
    return 200;
  }

  /** Ends the stream: `[DONE]`. */
  finish(): void {
    this.close(DONE_FRAME);
  }

  /** Ends the stream with `lastFrame`, for dialects whose last event is the end. */
  close(lastFrame: string): void {
    if (this.#isClosed) return;
    if (!this.#isCommitted) this.#commit();
    this.abandon();
    this.#sink.write(lastFrame);
    this.#sink.end();
  }

  /** Releases the timers, and writes nothing more. */
  abandon(): void {
    this.#isClosed = true;
    this.#peek?.cancel();
    this.#keepAlive?.cancel();
  }

  #commit(): void {
    this.#isCommitted = true;
    this.#peek?.cancel();
    this.#inference.exchange.head(200, { ...EVENT_STREAM, ...this.#headers });
    for (const frame of this.#held) this.#sink.write(textOf(frame));
    this.#held = [];
    this.#armKeepAlive(this.#inference.deps.settings.keepAliveMs);
  }

  /** Begins the stream with a comment, because the worker is silent for longer than a status may wait. */
  #commitWaiting(): void {
    if (this.#isCommitted || this.#isClosed) return;
    this.#commit();
    this.#sink.write(COMMENT_FRAME);
    this.#sink.flush();
    if (this.#keepAlive === undefined) this.#armKeepAlive(WAITING_KEEP_ALIVE_MS);
  }

  #armKeepAlive(periodMs: number): void {
    if (periodMs <= 0) return;
    this.#keepAlive = this.#inference.deps.clock.every(periodMs, () => {
      if (this.#isIdle) this.#sink.write(this.#keepAliveFrame());
      this.#isIdle = true;
    });
  }
}

function textOf(frame: string | (() => string)): string {
  return typeof frame === 'string' ? frame : frame();
}

/** Returns whether every character of `text` is ASCII. For short texts, because it reads every character. */
export function isAscii(text: string): boolean {
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 0x7f) return false;
  return true;
}

/** An answer that is written event by event. */
export abstract class StreamSink extends DialectSink<Inference> {
  readonly out: SseStream;

  /** The parameters behind `inference` are those of `SseStream`. */
  constructor(inference: Inference, headers?: Readonly<Record<string, string>>, keepAliveFrame?: () => string) {
    super(inference);
    this.out = new SseStream(inference, headers, keepAliveFrame);
  }

  override abandon(): void {
    super.abandon();
    this.out.abandon();
  }

  /** Sends the failure by the status, or as an event of the stream. */
  protected tell(error: ServeError): void {
    this.inference.fail(error, this.out.fail(error));
  }
}

/**
 * An answer that is written in one piece, or not at all. The token budget, or the output of a worker for one request,
 * bounds its size, so no worker must ever wait for its client.
 */
export abstract class WholeSink extends DialectSink<Inference> {
  /** Whether the worker has sent something that can be shown. */
  protected abstract readonly hasOutput: boolean;
  /** Writes the answer. For a large one it resolves when all is written. */
  protected abstract write(usage: Usage, finished: boolean): Promise<void> | undefined;

  end(usage: Usage, finished: boolean): void {
    if (this.isOver) return;
    if (!this.hasOutput) {
      this.fail(nothingSent());
      return;
    }
    this.close();
    const written = this.write(usage, finished);
    if (written === undefined) this.inference.succeed(usage);
    else
      written.then(
        () => this.inference.succeed(usage),
        (thrown: unknown) => this.tell(toServeError(thrown)),
      );
  }

  override isBlocked(): boolean {
    return false;
  }

  override onUnblocked(callback: () => void): void {
    queueMicrotask(callback);
  }

  protected tell(error: ServeError): void {
    this.inference.refuse(error);
  }
}

/** Counts the ends of the requests of a batch, and adds up what they used. */
export class BatchUsage {
  #left: number;
  #sum: Usage | undefined;

  /** @param requests their number in the batch */
  constructor(requests: number) {
    this.#left = requests;
  }

  /** Takes the usage of a request that has ended. Returns the usage of all requests if it was the last. */
  ended(usage: Usage): Usage | undefined {
    this.#sum = this.#sum === undefined ? usage : addUsage(this.#sum, usage);
    return --this.#left > 0 ? undefined : this.#sum;
  }
}

function addUsage(a: Usage, b: Usage): Usage {
  const cachedTokens = addOptional(a.cachedTokens, b.cachedTokens);
  const reasoningTokens = addOptional(a.reasoningTokens, b.reasoningTokens);
  return {
    promptTokens: a.promptTokens + b.promptTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
    ...(a.hidesCache === true ? { hidesCache: true } : {}),
    ...(reasoningTokens === undefined ? {} : { reasoningTokens }),
  };
}

function addOptional(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined ? b : a + (b ?? 0);
}

/** Returns the failure of a worker that ended its stream without output. The client does not get the cause. */
export function nothingSent(): ServeError {
  return new ServeError('internal_error', 'Internal server error', { cause: 'the worker sent nothing' });
}
