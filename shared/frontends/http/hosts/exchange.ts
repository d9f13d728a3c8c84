import type { BookedExchange } from '../../inference/index.ts';
import type { BodyIntake } from '../bodies/body-intake.ts';
import type { FrameSink } from './frame-sink.ts';

/**
 * One HTTP request together with the place for its response. A host (Node server, Lambda stream) makes one per request and
 * hands it to the app as `c.env.exchange`; without one the app makes its own over the fetch `Request` and gives a
 * `Response` whose body is a web stream.
 */
export interface HostExchange {
  /** Upper case. */
  readonly method: string;
  /** Path as the client sent it: not decoded, without the query. */
  readonly path: string;
  /** Text after the `?`, without it; empty when there is none. */
  readonly query: string;
  /** Address at the other end of the socket; undefined on hosts without one, whose callers count as of another machine. */
  readonly peer?: string | undefined;
  /** Header lines of the request; more than 100 are refused with 431. */
  readonly headerLines: number;
  /** Lower-case names, each once. */
  headerNames(): readonly string[];
  /** Value of the first line with that lower-case name. */
  header(name: string): string | undefined;
  /**
   * Hands the body to `intake`, chunk by chunk as it comes; called at most once. Rejects with what `intake` throws, from where
   * on nothing of the body is kept, and with `invalid_json` when the client stops in the middle.
   */
  readBody(intake: BodyIntake): Promise<void>;
  /** Where the response goes. */
  readonly sink: FrameSink;
  /**
   * Aborts with a `ServeError` (`deadline_exceeded`) when the host is about to stop the request, on hosts that limit its
   * time: the handler cancels the work and ends the response with that error, as its dialect writes it.
   */
  readonly deadline?: AbortSignal;
}

/** An exchange as handlers get it: all that they know of their host. */
export interface HttpExchange extends HostExchange, BookedExchange {
  readonly sink: FrameSink;
  readonly deadline?: AbortSignal;
  /** As `sink.head`, with the headers that every response carries. */
  head(status: number, headers: Readonly<Record<string, string>>): void;
}

/** What a host passes as the second argument of `app.fetch`. */
export interface HttpBindings {
  readonly exchange?: HostExchange;
  /** `HostExchange.peer` of a host that has no exchange. */
  readonly peer?: string | undefined;
  /** What `app.fetch` gives back when the response went into `exchange.sink`. @default `alreadySent()` */
  readonly sent?: Response;
}

let sent: Response | undefined;

/**
 * A response that tells Hono's Node host that there is nothing to send. Made when it is first asked for: the name `Response` alone
 * makes Node load all of its fetch, 15 ms of CPU.
 */
export function alreadySent(): Response {
  sent ??= new Response(null, { headers: { 'x-hono-already-sent': 'true' } });
  return sent;
}
