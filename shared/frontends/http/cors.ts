import type { BodyIntake } from './bodies/body-intake.ts';
import type { HttpExchange } from './hosts/exchange.ts';
import type { FrameSink } from './hosts/frame-sink.ts';

type Headers = Readonly<Record<string, string>>;

const ANY_ORIGIN = '*';
/** What scripts of a page may read beside what browsers always let them. */
const EXPOSED = 'x-request-id, retry-after';
/** How long browsers may remember the answer to a preflight. */
const PREFLIGHT_SECS = 86_400;

/**
 * The exchange of a request that a web page of another origin makes: the answer says that the page may read it. Keys are
 * sent as headers, never as cookies, so nothing is said of credentials.
 * @param origins as configured (`--cors-origin`); `*` = every origin
 * @returns the exchange itself for requests of no page, or of a page that may not
 */
export function withCors(exchange: HttpExchange, origins: readonly string[]): HttpExchange {
  const allowed = allowedOrigin(exchange, origins);
  if (allowed === undefined) return exchange;
  return new CorsExchange(exchange, {
    'access-control-allow-origin': allowed,
    'access-control-expose-headers': EXPOSED,
    ...(allowed === ANY_ORIGIN ? {} : { vary: 'origin' }),
  });
}

/** Answers a browser that asks before it sends; false when the request is no such question. */
export function answerPreflight(exchange: HttpExchange): boolean {
  const method = exchange.header('access-control-request-method');
  if (!(exchange instanceof CorsExchange) || exchange.method !== 'OPTIONS' || method === undefined) return false;
  exchange.sink.head(204, {
    'access-control-allow-methods': 'GET, POST, DELETE',
    'access-control-allow-headers': exchange.header('access-control-request-headers') ?? '*',
    'access-control-max-age': String(PREFLIGHT_SECS),
  });
  exchange.sink.end();
  return true;
}

function allowedOrigin(exchange: HttpExchange, origins: readonly string[]): string | undefined {
  const origin = exchange.header('origin');
  if (origin === undefined) return undefined;
  if (origins.includes(ANY_ORIGIN)) return ANY_ORIGIN;
  return origins.includes(origin) ? origin : undefined;
}

/** An exchange whose answer carries more headers, whoever writes it. */
class CorsExchange implements HttpExchange {
  readonly sink: FrameSink;
  readonly deadline?: AbortSignal;
  readonly #inner: HttpExchange;

  constructor(inner: HttpExchange, headers: Headers) {
    this.#inner = inner;
    this.sink = new HeaderSink(inner.sink, headers);
    if (inner.deadline !== undefined) this.deadline = inner.deadline;
  }

  get method(): string {
    return this.#inner.method;
  }

  get path(): string {
    return this.#inner.path;
  }

  get query(): string {
    return this.#inner.query;
  }

  get headerLines(): number {
    return this.#inner.headerLines;
  }

  headerNames(): readonly string[] {
    return this.#inner.headerNames();
  }

  header(name: string): string | undefined {
    return this.#inner.header(name);
  }

  readBody(intake: BodyIntake): Promise<void> {
    return this.#inner.readBody(intake);
  }
}

/** A sink that adds headers to the head and passes everything else on. */
class HeaderSink implements FrameSink {
  readonly #inner: FrameSink;
  readonly #headers: Headers;

  constructor(inner: FrameSink, headers: Headers) {
    this.#inner = inner;
    this.#headers = headers;
  }

  get isNew(): boolean {
    return this.#inner.isNew;
  }

  get closed(): AbortSignal {
    return this.#inner.closed;
  }

  head(status: number, headers: Headers): void {
    this.#inner.head(status, { ...headers, ...this.#headers });
  }

  write(frame: string | Uint8Array, isKnownAscii?: boolean): void {
    this.#inner.write(frame, isKnownAscii);
  }

  end(): void {
    this.#inner.end();
  }

  breakOff(reason: Error): void {
    this.#inner.breakOff(reason);
  }

  flush(): void {
    this.#inner.flush();
  }

  isBlocked(): boolean {
    return this.#inner.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.#inner.onUnblocked(callback);
  }
}
