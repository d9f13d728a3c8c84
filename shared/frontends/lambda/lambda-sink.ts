import { type Flushable, flushAtEndOfTurn } from '../../concurrency/index.ts';
import type { FrameSink } from '../http/exchange/exchange.ts';

/** Waiting bytes that leave without waiting for the end of the turn, so that a burst meets back pressure early. */
const WAITING_BYTES_MAX = 16 * 1024;

/**
 * `FrameSink` over the response stream of a function. `closed` aborts only when a write fails or the handler cancels: a client that
 * leaves cannot be seen here.
 */
export class LambdaSink implements FrameSink, Flushable {
  readonly #stream: LambdaResponseStream;
  readonly #openHttpStream: OpenHttpStream;
  readonly #closing = new AbortController();
  #state: 'new' | 'open' | 'ended' = 'new';
  #prelude: ResponsePrelude | undefined;
  /** False for answers that HTTP defines without a body, whatever the app writes. */
  #hasBody: boolean;
  /** The stream behind the prelude; undefined until the head has left. */
  #body: LambdaResponseStream | undefined;
  /** Frames that have not left: bytes and texts in order, then `#text`. */
  #parts: (string | Uint8Array)[] = [];
  #text = '';
  #waitingBytes = 0;
  #isListed = false;
  #isBlocked = false;
  #unblocked: (() => void)[] = [];
  #breakOff: (reason: Error) => void = () => {};
  /** Resolves when the last byte has been handed over or the stream has broken; rejects when it was broken off here. */
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
    this.finished.catch(() => {}); // the handler looks at it later
    stream.on('drain', () => this.#unblock());
  }

  get closed(): AbortSignal {
    return this.#closing.signal;
  }

  /** True between `head` and the end. */
  get isOpen(): boolean {
    return this.#state === 'open';
  }

  /** True before `head`. */
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
    // A streamed answer is chunked by the service: with a length as well it would be malformed.
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

  /** Aborts `closed`: nobody waits for the answer any more. Also after the end, when the app did not make that end. */
  cancel(reason: Error): void {
    this.#closing.abort(reason);
  }

  /**
   * Breaks the answer off: `finished` rejects with `reason`, which a handler passes on to the runtime, so that the service
   * cuts the connection and no client takes the answer for whole. Destroying the stream would take the process down.
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

/** The head travels as JSON and becomes header lines in the service, which must be ASCII: the rest as percent-encoded UTF-8. */
function toAscii(value: string): string {
  return value.replace(/[^\t\x20-\x7e]+/g, (text) =>
    Array.from(Buffer.from(text, 'utf8'), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  );
}

/** Types of the Node runtime of Lambda that are used here; the runtime provides them, no package has to. */

/** Head of a streamed HTTP answer: what the runtime writes before the body. */
export interface ResponsePrelude {
  readonly statusCode: number;
  /** One string a name. */
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * The runtime's response stream: a node writable with a part of its interface. Its `close` says nothing of the client, who
 * can leave without any sign (docs/architecture.md).
 */
export interface LambdaResponseStream {
  /** False when more than the high-water mark is waiting; `drain` follows. */
  write(chunk: string | Uint8Array): boolean;
  end(): void;
  on(event: 'drain' | 'finish' | 'close', listener: () => void): void;
  on(event: 'error', listener: (error: Error) => void): void;
}

/** `awslambda.HttpResponseStream.from`: gives a stream that writes `prelude` before the first byte of the body. */
export type OpenHttpStream = (stream: LambdaResponseStream, prelude: ResponsePrelude) => LambdaResponseStream;

/** Second argument of a handler. */
export interface LambdaContext {
  readonly awsRequestId: string;
  /** False: the next request is taken when the handler is done, whatever sockets and timers are still open. */
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
