import { type Flushable, flushAtEndOfTurn, spendOfTurn } from '../../concurrency/index.ts';
import { type BodyIntake, bodyUnreadable } from '../http/exchange/body-intake.ts';
import type { FrameSink, HostExchange } from '../http/exchange/exchange.ts';

const HIGH_WATER_BYTES = 64 * 1024;
const TURN_CHARS_MAX = 64 * 1024;
/** Statuses whose `Response` must have no body. */
const BODYLESS: ReadonlySet<number> = new Set([204, 205, 304]);

/** Writes one response as a fetch `Response` whose body is a stream. `response` resolves with the first bytes. */
export class WebFrameSink implements FrameSink, Flushable {
  readonly response: Promise<Response>;
  readonly #encoder = new TextEncoder();
  readonly #closed = new AbortController();
  readonly #body: ReadableStream<Uint8Array>;
  readonly #hasBody: boolean;
  #controller!: ReadableStreamDefaultController<Uint8Array>; // set by the stream's start, which runs in the constructor
  #respond!: (response: Response) => void; // set by the promise's executor, which runs in the constructor
  #status: number | undefined;
  #headers: Readonly<Record<string, string>> = {};
  #pending = '';
  #isListed = false;
  #isHeadSent = false;
  #isEnded = false;
  #waiters: (() => void)[] = [];

  /** @param signal the request's own; it aborts if the host knows that the client left before the response began */
  constructor(hasBody = true, signal?: AbortSignal) {
    this.#hasBody = hasBody;
    this.response = new Promise((resolve) => {
      this.#respond = resolve;
    });
    this.#body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: () => this.#releaseWaiters(),
        cancel: () => this.#clientLeft(),
      },
      { highWaterMark: HIGH_WATER_BYTES, size: (chunk) => chunk.byteLength },
    );
    if (signal?.aborted) this.#clientLeft();
    else signal?.addEventListener('abort', () => this.#clientLeft(), { once: true });
  }

  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  get isNew(): boolean {
    return this.#status === undefined;
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    this.#status = status;
    this.#headers = headers;
  }

  write(frame: string | Uint8Array): void {
    if (this.#isEnded || !this.#hasBody) return;
    spendOfTurn(frame.length);
    if (typeof frame !== 'string') {
      this.flush();
      this.#controller.enqueue(frame);
      return;
    }
    this.#pending += frame;
    if (this.#pending.length > TURN_CHARS_MAX) this.flush();
    else if (!this.#isListed) {
      this.#isListed = true;
      flushAtEndOfTurn(this);
    }
  }

  flush(): void {
    this.#isListed = false;
    if (this.#isEnded) return;
    this.#sendHead();
    if (this.#pending === '') return;
    const bytes = this.#encoder.encode(this.#pending);
    this.#pending = '';
    this.#controller.enqueue(bytes);
  }

  end(): void {
    if (this.#isEnded) return;
    this.flush();
    this.#isEnded = true;
    this.#controller.close();
    this.#releaseWaiters();
  }

  breakOff(reason: Error): void {
    if (this.#isEnded) return;
    this.#controller.error(reason);
    this.#clientLeft(); // as the app sees it
  }

  isBlocked(): boolean {
    return !this.#isEnded && (this.#controller.desiredSize ?? 0) - this.#pending.length <= 0;
  }

  onUnblocked(callback: () => void): void {
    if (this.isBlocked()) this.#waiters.push(callback);
    else queueMicrotask(callback);
  }

  #sendHead(): void {
    if (this.#isHeadSent) return;
    this.#isHeadSent = true;
    const status = this.#status ?? 200; // 200 if the client left before the app set a status
    const init = { status, headers: { ...this.#headers } };
    const isBodyless = !this.#hasBody || BODYLESS.has(status);
    this.#respond(new Response(isBodyless ? null : this.#body, init));
  }

  #clientLeft(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#pending = '';
    this.#closed.abort();
    this.#releaseWaiters();
    this.#sendHead(); // no client reads it, but code that awaits `response` must not wait forever
  }

  #releaseWaiters(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const callback of waiters) callback();
  }
}

/** The exchange of a plain fetch handler: it reads a `Request` and answers with `response`. */
export class WebExchange implements HostExchange {
  readonly scheme: 'http' | 'https';
  readonly sink: WebFrameSink;
  readonly peer: string | undefined;
  readonly method: string;
  path: string;
  readonly query: string;
  readonly #request: Request;

  /** @param peer address that the request came from, if the host knows it */
  constructor(request: Request, peer?: string) {
    this.#request = request;
    this.peer = peer;
    this.method = request.method;
    this.sink = new WebFrameSink(request.method !== 'HEAD', request.signal);
    const { pathname, search, protocol } = new URL(request.url);
    this.scheme = protocol === 'https:' ? 'https' : 'http';
    this.path = pathname;
    this.query = search.slice(1);
  }

  /** Promise that resolves with the first bytes of the body. */
  get response(): Promise<Response> {
    return this.sink.response;
  }

  get headerLines(): number {
    return this.headerNames().length;
  }

  headerNames(): readonly string[] {
    return [...this.#request.headers.keys()];
  }

  header(name: string): string | undefined {
    return this.#request.headers.get(name) ?? undefined;
  }

  async readBody(intake: BodyIntake): Promise<void> {
    const { body } = this.#request;
    if (body === null) return;
    const reader = body.getReader();
    for (;;) {
      const next = await reader.read().catch((error: unknown) => {
        throw bodyUnreadable(error);
      });
      if (next.done) return;
      try {
        intake.add(next.value);
      } catch (thrown) {
        await reader.cancel(thrown).catch(() => {}); // the rest is not read, so a failure to cancel changes nothing
        throw thrown;
      }
    }
  }
}
