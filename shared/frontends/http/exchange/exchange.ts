import type { StoredResponse } from '../../../responses/index.ts';
import type { TrackedExchange } from '../../inference/deps.ts';
import type { BodyIntake } from './body-intake.ts';

/**
 * One HTTP request together with the place for its response. A host (Node server, Lambda stream) makes one per request and
 * hands it to the app; over a fetch `Request` the app makes its own, whose `Response` has a web stream for a body.
 */
export interface HostExchange {
  /** Upper case. */
  readonly method: string;
  /** Path as the client sent it: not decoded, without the query. The app writes over it where a route has another spelling. */
  path: string;
  /** Text after the `?`, without it; empty when there is none. */
  readonly query: string;
  /** How the client came, as it names that itself, where the host knows it. */
  readonly scheme?: 'http' | 'https' | 'ws' | 'wss' | undefined;
  /** Of HTTP, such as `1.1`, where the host knows it. */
  readonly httpVersion?: string | undefined;
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
  /** Set where a `response.create` event of a WebSocket asks, whose connection this remembers for. */
  readonly memory?: ResponseMemory;
}

/** The most recent response of a connection that was not stored: what comes next there may follow it. */
export interface ResponseMemory {
  /** Undefined when it is another one, or has been forgotten. */
  get(id: string): Promise<StoredResponse | undefined>;
  /** Remembers a response in place of the one before; one that is too large is forgotten. */
  put(response: StoredResponse): Promise<void>;
}

/** An exchange as handlers get it: all that they know of their host. */
export interface HttpExchange extends Omit<HostExchange, 'headerLines'>, TrackedExchange {
  readonly sink: FrameSink;
  readonly deadline?: AbortSignal;
  /** Headers of the response, whatever becomes of it. */
  announce(headers: Readonly<Record<string, string>>): void;
  /** As `sink.head`, with the headers that every response carries. */
  head(status: number, headers: Readonly<Record<string, string>>): void;
}

/**
 * Where the bytes of one HTTP response go. One implementation per host (Node response, Lambda stream, web stream), one
 * contract suite, so that hosts differ in nothing else.
 *
 * | State | `head` | `write` | `end` | `breakOff` |
 * |---|---|---|---|---|
 * | new | open (nothing leaves before the first write or end) | not allowed | not allowed | not allowed |
 * | open | not allowed | queued; all writes of one turn leave together | ended | ended, `closed` aborts |
 * | ended, or client gone | ignored | ignored | ignored | ignored |
 */
export interface FrameSink {
  /** No head was set: the status of the response is still open. */
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
  /** Cuts the response off where it is, so that no client takes it for whole: for a failure that it has no words for. */
  breakOff(reason: Error): void;
  /** Sends the head and queued bytes now, without waiting for more. */
  flush(): void;
  /** True while the client reads too slowly: more than the host's high-water mark is waiting. */
  isBlocked(): boolean;
  /** Runs `callback` once when the client has caught up or has left. */
  onUnblocked(callback: () => void): void;
  /** Aborts when the client leaves before `end`. Never aborts on hosts that cannot see it (docs/architecture.md). */
  readonly closed: AbortSignal;
}
