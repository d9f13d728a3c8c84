import type { StoredResponse } from '../../../responses/index.ts';
import type { TrackedExchange } from '../../inference/deps.ts';
import type { BodyIntake } from './body-intake.ts';

/**
 * One HTTP request together with the place for its response. A host (Node server, Lambda stream) makes one per request
 * and hands it to the app; over a fetch `Request` the app makes its own, whose `Response` has a web stream for a body.
 */
export interface HostExchange {
  /** Method in upper case. */
  readonly method: string;
  /**
   * Path as the client sent it: not decoded, without the query. The app replaces it if a route has another spelling.
   */
  path: string;
  /** Text after the `?`, without it; empty if there is none. */
  readonly query: string;
  /** Scheme of the client's address for the server, if the host knows it. */
  readonly scheme?: 'http' | 'https' | 'ws' | 'wss' | undefined;
  /** Version of HTTP, such as `1.1`, if the host knows it. */
  readonly httpVersion?: string | undefined;
  /**
   * Address at the other end of the socket; undefined on hosts without one, whose clients count as on another machine.
   */
  readonly peer?: string | undefined;
  /** Number of header lines of the request; more than 100 are refused with 431. */
  readonly headerLines: number;
  /** Returns the lower-case names of headers, each once. */
  headerNames(): readonly string[];
  /** Returns the value of the first line with that lower-case name. */
  header(name: string): string | undefined;
  /**
   * Hands the body to `intake`, chunk by chunk as it comes; called at most once. Rejects with what `intake` throws, and
   * keeps nothing of the body from then on. Rejects with `invalid_json` if the client stops in the middle.
   */
  readBody(intake: BodyIntake): Promise<void>;
  /** Destination of the response. */
  readonly sink: FrameSink;
  /**
   * Aborts with a `ServeError` (`deadline_exceeded`) when a host that limits the time of requests is about to stop this
   * one. The handler then cancels the work and ends the response with that error, in its dialect.
   */
  readonly deadline?: AbortSignal;
  /** Memory of the connection, for requests that are `response.create` events of a WebSocket. */
  readonly memory?: ResponseMemory;
}

/** Memory of a connection for its latest response that was not stored, which the next request there may continue. */
export interface ResponseMemory {
  /** Resolves with the response of that id; undefined if it is not the latest, or was forgotten. */
  get(id: string): Promise<StoredResponse | undefined>;
  /** Remembers a response in place of the one before. A response that is too large is forgotten. */
  put(response: StoredResponse): Promise<void>;
}

/** An exchange as handlers get it, which hides the host. */
export interface HttpExchange extends Omit<HostExchange, 'headerLines'>, TrackedExchange {
  readonly sink: FrameSink;
  readonly deadline?: AbortSignal;
  /** Adds headers to the response, whether it succeeds or fails. */
  announce(headers: Readonly<Record<string, string>>): void;
  /** Does what `sink.head` does, with the headers that every response carries. */
  head(status: number, headers: Readonly<Record<string, string>>): void;
}

/**
 * Destination of the bytes of one HTTP response. There is one implementation per host (Node response, Lambda stream,
 * web stream), and one contract suite, so that hosts differ in nothing else.
 *
 * | State | `head` | `write` | `end` | `breakOff` |
 * |---|---|---|---|---|
 * | new | open (nothing leaves before the first write or end) | not allowed | not allowed | not allowed |
 * | open | not allowed | queued; all writes of one turn leave together | ended | ended, `closed` aborts |
 * | ended, or client gone | ignored | ignored | ignored | ignored |
 */
export interface FrameSink {
  /** Whether no head was set, so that the status of the response is still open. */
  readonly isNew: boolean;
  /** Sets status and headers; they leave together with the first bytes. Names in lower case. */
  head(status: number, headers: Readonly<Record<string, string>>): void;
  /**
   * Queues bytes. `isKnownAscii` promises that every character of a text is ASCII, which saves measuring its UTF-8.
   * Frames written in the same turn of the event loop leave in one socket write.
   */
  write(frame: string | Uint8Array, isKnownAscii?: boolean): void;
  /** Ends the response after what was queued. Always called exactly once by the app, also after a failure. */
  end(): void;
  /** Cuts the response off, so that no client takes it for whole. For failures that the dialect cannot express. */
  breakOff(reason: Error): void;
  /** Sends the head and queued bytes now, without waiting for more. */
  flush(): void;
  /** Returns whether the client reads too slowly: more than the host's high-water mark is waiting. */
  isBlocked(): boolean;
  /** Runs `callback` once when the client has caught up or has left. */
  onUnblocked(callback: () => void): void;
  /** Aborts when the client leaves before `end`. Never aborts on hosts that cannot see it (docs/architecture.md). */
  readonly closed: AbortSignal;
}
