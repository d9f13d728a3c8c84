import type { Timer } from '../../../clock/index.ts';
import { openAiStreamError, type ServeError } from '../../../errors/index.ts';
import type { FrameSink } from '../hosts/frame-sink.ts';
import type { Inference } from '../inference.ts';
import { sendError, statusOf } from './send.ts';

/** A comment frame: tells proxies and clients that the stream lives. */
export const COMMENT_FRAME = ':\n\n';
const DONE_FRAME = 'data: [DONE]\n\n';
/** Keep-alive of a stream that was committed without an event and has none configured. */
const WAITING_KEEP_ALIVE_MS = 10_000;
/** Leading annotations that are kept back with the head. */
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
   * @param headers sent beside the usual ones
   * @param keepAliveFrame what an idle stream says; a comment when the dialect has nothing of its own
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

  /** The head is out: a failure can only be told inside the stream. */
  get isCommitted(): boolean {
    return this.#isCommitted;
  }

  /** The status when the response fails now: the failure's own, or 200 once the head is out. */
  statusOf(error: ServeError): number {
    return this.#isCommitted ? 200 : statusOf(error, this.#inference.deps.settings.overloadStatus);
  }

  /** The hot path: queues one ready-made frame; after the end there is nobody to read it. */
  write(frame: string, isKnownAscii = false): void {
    if (this.#isClosed) return;
    if (!this.#isCommitted) this.#commit();
    this.#isIdle = false;
    this.#sink.write(frame, isKnownAscii);
  }

  /**
   * Queues a frame that does not by itself decide the status: annotations come before the worker was asked.
   * @param frame or what makes it when it leaves
   */
  annotate(frame: string | (() => string)): void {
    if (this.#isCommitted || this.#held.length >= HELD_FRAMES_MAX) this.write(textOf(frame));
    else this.#held.push(frame);
  }

  /** Ends the stream with a failure. */
  fail(error: ServeError): void {
    if (this.#isClosed) return;
    const isCommitted = this.#isCommitted;
    this.abandon();
    if (!isCommitted) {
      sendError(this.#inference.exchange, error, this.#inference.deps.settings.overloadStatus);
      return;
    }
    this.#sink.write(openAiStreamError(error));
    this.#sink.end();
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

  /** Releases the timers; nothing is written any more. */
  abandon(): void {
    this.#isClosed = true;
    this.#peek?.cancel();
    this.#keepAlive?.cancel();
  }

  #commit(): void {
    this.#isCommitted = true;
    this.#peek?.cancel();
    this.#inference.exchange.head(200, {
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache',
      ...this.#headers,
    });
    for (const frame of this.#held) this.#sink.write(textOf(frame));
    this.#held = [];
    this.#armKeepAlive(this.#inference.deps.settings.keepAliveMs);
  }

  /** The worker is silent for longer than a status may wait: the stream begins with a comment. */
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

/** Whether `text` is its own UTF-8, a byte a character. For short texts: it looks at every character. */
export function isAscii(text: string): boolean {
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 0x7f) return false;
  return true;
}
