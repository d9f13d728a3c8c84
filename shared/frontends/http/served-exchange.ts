import { ANYBODY, type Grant } from '../../access/index.ts';
import type { Random } from '../../clock/index.ts';
import type { LimitName, ServeError } from '../../errors/index.ts';
import { clientRequestId, type TransportNames } from '../inference/index.ts';
import type { BodyIntake } from './bodies/body-intake.ts';
import type { HostExchange, HttpExchange } from './hosts/exchange.ts';
import type { FrameSink } from './hosts/frame-sink.ts';

type Headers = Readonly<Record<string, string>>;

const HTTP: TransportNames = {
  spanName: 'http-request',
  statusAttribute: 'http.response.status_code',
  okStatus: 200,
  goneStatus: 499,
};

/** A host's exchange with what every response carries: its id, and what pages of other origins have to be told. */
export class ServedExchange implements HttpExchange {
  readonly transport = HTTP;
  readonly sink: FrameSink;
  readonly deadline?: AbortSignal;
  readonly requestId: string;
  readonly madeRequestId: string | undefined;
  grant: Grant = ANYBODY;
  readonly #host: HostExchange;
  readonly #clientRequestId: string | undefined;
  readonly #forPages: Headers | undefined;
  readonly #onLimit: (limit: LimitName) => void;
  #failure: ServeError | undefined;

  /**
   * @param forPages headers of every response to a web page of another origin; undefined = it comes from none
   * @param onLimit hears of a limit that the request goes beyond
   */
  constructor(
    host: HostExchange,
    random: Pick<Random, 'uuid'>,
    forPages: Headers | undefined,
    onLimit: (limit: LimitName) => void,
  ) {
    this.#host = host;
    this.#forPages = forPages;
    this.#onLimit = onLimit;
    this.sink = host.sink;
    if (host.deadline !== undefined) this.deadline = host.deadline;
    const given = clientRequestId(host.header('x-request-id'));
    this.#clientRequestId = given;
    this.requestId = given ?? random.uuid();
    this.madeRequestId = given === undefined ? this.requestId : undefined;
  }

  get method(): string {
    return this.#host.method;
  }

  get path(): string {
    return this.#host.path;
  }

  get query(): string {
    return this.#host.query;
  }

  get peer(): string | undefined {
    return this.#host.peer;
  }

  get headerLines(): number {
    return this.#host.headerLines;
  }

  spanAttributes(): Readonly<Record<string, string>> {
    return { method: this.method, uri: this.path };
  }

  headerNames(): readonly string[] {
    return this.#host.headerNames();
  }

  /** An `x-request-id` that is none counts as absent. */
  header(name: string): string | undefined {
    return name === 'x-request-id' ? this.#clientRequestId : this.#host.header(name);
  }

  readBody(intake: BodyIntake): Promise<void> {
    return this.#host.readBody(intake);
  }

  failed(error: ServeError): void {
    if (error === this.#failure) return;
    this.#failure = error;
    if (error.limit !== undefined) this.#onLimit(error.limit);
  }

  head(status: number, headers: Headers): void {
    // A refusal has its own figures of the budget.
    const all = { ...this.grant.headers(), ...headers, 'x-request-id': this.requestId };
    this.sink.head(status, this.#forPages === undefined ? all : { ...all, ...this.#forPages });
  }
}

const ANY_ORIGIN = '*';
/** What scripts of a page may read beside what browsers always let them. */
const EXPOSED = [
  'x-request-id',
  'request-id', // the name of the Messages API
  'retry-after',
  ...['limit', 'remaining', 'reset'].flatMap((what) => [`x-ratelimit-${what}-requests`, `x-ratelimit-${what}-tokens`]),
].join(', ');
/** How long browsers may remember the response to a preflight. */
const PREFLIGHT_SECS = 86_400;

/**
 * The headers that let a web page of another origin read the response to its request. Keys are sent as headers, never as
 * cookies, so nothing is said of credentials.
 * @param origins as configured (`--cors-origin`); `*` = every origin
 * @returns undefined for requests of no page, or of a page that may not
 */
export function corsHeaders(
  exchange: HostExchange,
  origins: readonly string[],
): Readonly<Record<string, string>> | undefined {
  const allowed = origins.length === 0 ? undefined : allowedOrigin(exchange, origins);
  if (allowed === undefined) return undefined;
  return {
    'access-control-allow-origin': allowed,
    'access-control-expose-headers': EXPOSED,
    ...(allowed === ANY_ORIGIN ? {} : { vary: 'origin' }),
  };
}

/** Responds to the browser of a page that may, where it asks before it sends; false when the request is no such question. */
export function sendPreflight(exchange: HttpExchange): boolean {
  if (exchange.method !== 'OPTIONS' || exchange.header('access-control-request-method') === undefined) return false;
  exchange.head(204, {
    'access-control-allow-methods': 'GET, POST, DELETE',
    'access-control-allow-headers': exchange.header('access-control-request-headers') ?? '*',
    'access-control-max-age': String(PREFLIGHT_SECS),
  });
  exchange.sink.end();
  return true;
}

function allowedOrigin(exchange: HostExchange, origins: readonly string[]): string | undefined {
  const origin = exchange.header('origin');
  if (origin === undefined) return undefined;
  if (origins.includes(ANY_ORIGIN)) return ANY_ORIGIN;
  return origins.includes(origin) ? origin : undefined;
}
