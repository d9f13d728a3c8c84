import { type Flushable, flushAtEndOfTurn } from '../../concurrency/index.ts';
import type { FrameSink } from '../http/exchange/exchange.ts';

/** Waiting bytes that are sent before the end of the turn, so that a burst meets back pressure early. */
const WAITING_BYTES_MAX = 16 * 1024;

/**
 * A `FrameSink` over the response stream of a function. `closed` aborts only when a write fails or the handler cancels:
 * a function cannot see that a client leaves.
 */
export class LambdaSink implements FrameSink, Flushable {
  readonly #stream: LambdaResponseStream;
  readonly #openHttpStream: OpenHttpStream;
  readonly #closing = new AbortController();
  #state: 'new' | 'open' | 'ended' = 'new';
  #prelude: ResponsePrelude | undefined;
  /** Whether the answer has a body. HTTP defines some answers without one, even if the app writes it. */
  #hasBody: boolean;
  /** The stream that follows the prelude; undefined until the head has left. */
  #body: LambdaResponseStream | undefined;
  /** Frames that have not left: bytes and texts in order, followed by `#text`. */
  #parts: (string | Uint8Array)[] = [];
  #text = '';
  #waitingBytes = 0;
  #isListed = false;
  #isBlocked = false;
  #unblocked: (() => void)[] = [];
  #breakOff: (reason: Error) => void = () => {};
  /** Resolves when the runtime has the last byte, or the stream has broken. Rejects if this sink broke it off. */
  readonly finished: Promise<void>;

  constructor(stream: LambdaResponseStream, openHttpStream: OpenHttpStream, method: string) {
    this.#hasBody = method !== 'HEAD';
    this.#stream = stream;
    this.#openHttpStream = openHttpStream;
    this.finished = new Promise((resolve, reject) => {
      this.#breakOff = reject;
      stream.on('finish', resolve);
      stream.on('close', () => {
        this.#lose(new Error('the response stream was closed'));
        resolve();
      });
      stream.on('error', (error) => {
        this.#lose(error);
        resolve();
      });
    });
    this.finished.catch(() => {}); // the handler awaits it later
    stream.on('drain', () => this.#unblock());
  }

  get closed(): AbortSignal {
    return this.#closing.signal;
  }

  /** Whether the answer is between `head` and its end. */
  get isOpen(): boolean {
    return this.#state === 'open';
  }

  /** Whether the app has not called `head` yet. */
  get isNew(): boolean {
    return this.#state === 'new';
  }

  /** Value of `content-type` given to `head`. */
  get contentType(): string | undefined {
    return this.#prelude?.headers['content-type'];
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    if (this.#state === 'ended') return;
    if (this.#state === 'open') throw new Error('head() was called twice');
    this.#state = 'open';
    if (status === 204 || status === 304) this.#hasBody = false;
    // The service sends a streamed answer in chunks; a length as well would make it malformed.
    const { 'content-length': _length, ...kept } = headers;
    const ascii = Object.entries(kept).map(([name, value]) => [name, toAscii(value)] as const);
    this.#prelude = { statusCode: status, headers: Object.fromEntries(ascii) };
  }

  write(frame: string | Uint8Array): void {
    if (this.#state === 'ended') return;
    if (this.#state === 'new') throw new Error('write() was called before head()');
    if (!this.#hasBody) return;
    if (typeof frame === 'string') this.#text += frame;
    else this.#addBytes(frame);
    this.#waitingBytes += frame.length;
    if (this.#waitingBytes >= WAITING_BYTES_MAX) this.flush();
    else if (!this.#isListed) {
      this.#isListed = true;
      flushAtEndOfTurn(this);
    }
  }

  flush(): void {
    this.#isListed = false;
    if (this.#state !== 'open') return;
    if (this.#body === undefined || this.#waitingBytes > 0) this.#send();
  }

  end(): void {
    if (this.#state === 'ended') return;
    if (this.#state === 'new') throw new Error('end() was called before head()');
    // The prelude leaves with the first write only, so an answer without a body needs an empty one.
    if (this.#body === undefined || this.#waitingBytes > 0) this.#send();
    this.#state = 'ended';
    this.#stream.end();
  }

  isBlocked(): boolean {
    return this.#isBlocked;
  }

  onUnblocked(callback: () => void): void {
    if (this.#isBlocked) this.#unblocked.push(callback);
    else queueMicrotask(callback);
  }

  /**
   * Aborts `closed`, because no client waits for the answer any more. This also works after the end, if the app did not
   * end the answer itself.
   */
  cancel(reason: Error): void {
    this.#closing.abort(reason);
  }

  /**
   * Breaks the answer off: `finished` rejects with `reason`, which a handler passes on to the runtime. The service then
   * cuts the connection, so that no client takes the answer for complete. Destroying the stream would end the process.
   */
  breakOff(reason: Error): void {
    if (this.#state === 'ended') return;
    this.#lose(reason);
    this.#breakOff(reason);
  }

  #lose(reason: Error): void {
    if (this.#state !== 'ended') {
      this.#state = 'ended';
      this.#parts = [];
      this.#text = '';
      this.#waitingBytes = 0;
      this.cancel(reason);
    }
    this.#unblock();
  }

  #addBytes(frame: Uint8Array): void {
    if (this.#text !== '') this.#parts.push(this.#text);
    this.#text = '';
    this.#parts.push(frame);
  }

  #send(): void {
    this.#body ??= this.#openHttpStream(this.#stream, this.#prelude ?? { statusCode: 200, headers: {} });
    const waiting = this.#takeWaiting();
    if (!this.#body.write(waiting)) this.#isBlocked = true;
  }

  #takeWaiting(): string | Uint8Array {
    const text = this.#text;
    const parts = this.#parts;
    this.#text = '';
    this.#waitingBytes = 0;
    if (parts.length === 0) return text;
    this.#parts = [];
    if (text !== '') parts.push(text);
    return Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)));
  }

  #unblock(): void {
    this.#isBlocked = false;
    const callbacks = this.#unblocked;
    this.#unblocked = [];
    for (const callback of callbacks) callback();
  }
}

/**
 * Escapes what is not ASCII as percent-encoded UTF-8. The head travels as JSON and becomes header lines in the service,
 * which must be ASCII.
 */
function toAscii(value: string): string {
  return value.replace(/[^\t\x20-\x7e]+/g, (text) =>
    Array.from(Buffer.from(text, 'utf8'), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  );
}

/** Types of the Node runtime of Lambda. The runtime provides what they describe, so they need no package. */

/** Head of a streamed HTTP answer, which the runtime writes before the body. */
export interface ResponsePrelude {
  readonly statusCode: number;
  /** Headers, with one string for each name. */
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * The part of the runtime's response stream, a Node writable, that is used here. Its `close` event says nothing about
 * the client, which can leave without any sign (docs/architecture.md).
 */
export interface LambdaResponseStream {
  /** Writes a chunk. Returns false if more than the high-water mark is waiting; `drain` follows. */
  write(chunk: string | Uint8Array): boolean;
  end(): void;
  on(event: 'drain' | 'finish' | 'close', listener: () => void): void;
  on(event: 'error', listener: (error: Error) => void): void;
}

/**
 * The runtime's `awslambda.HttpResponseStream.from`: returns a stream that writes `prelude` before the first byte of
 * the body.
 */
export type OpenHttpStream = (stream: LambdaResponseStream, prelude: ResponsePrelude) => LambdaResponseStream;

/** Second argument of a handler. */
export interface LambdaContext {
  readonly awsRequestId: string;
  /**
   * Whether the runtime waits for open sockets and timers before it takes the next request. If false, it waits only for
   * the handler.
   */
  callbackWaitsForEmptyEventLoop: boolean;
  getRemainingTimeInMillis(): number;
}

/** A handler that writes its answer to `stream`. */
export type StreamingHandler = (event: unknown, stream: LambdaResponseStream, context: LambdaContext) => Promise<void>;

/** The global `awslambda` of the Node runtime. */
export interface LambdaRuntime {
  streamifyResponse(handler: StreamingHandler): StreamingHandler;
  readonly HttpResponseStream: { readonly from: OpenHttpStream };
}
