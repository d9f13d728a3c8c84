import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { StringDecoder } from 'node:string_decoder';
import type { Clock, Timer } from '../../clock/index.ts';
import { ServeError, toServeError, workerError } from '../../errors/index.ts';
import { isRecord, type UnknownRecord } from '../../records/index.ts';
import type { EngineSink } from '../types.ts';
import {
  type Exchange as Connection,
  faultInStream,
  faultOfStatus,
  jsonOrText,
  readBytes,
  readFault,
  retryAfterOf,
  type Upstream,
  type UpstreamMessage,
} from './upstream.ts';

/** No event of an honest server is larger. */
const EVENT_CHARS_MAX = 8 * 1024 * 1024;
const LF = 10;

/**
 * Reads a stream of server-sent events and gives the data of each. Chunks may end anywhere: inside a character, between CR
 * and LF, inside a field name. Comments and every field but `data` are skipped.
 */
export class SseParser {
  readonly #decoder = new StringDecoder('utf8');
  readonly #onData: (data: string) => void;
  #rest = ''; // an unfinished line
  #data = '';
  #hasData = false;
  #isAtStart = true;
  #skipsLf = false; // the last chunk ended in CR; a LF that follows belongs to it

  constructor(onData: (data: string) => void) {
    this.#onData = onData;
  }

  /** @throws ServeError `BackendProtocol` when an event grows over 8 MiB. */
  push(chunk: Uint8Array): void {
    this.#take(this.#decoder.write(chunk));
  }

  /** The stream is over; an event that lacks its closing blank line counts as complete. */
  end(): void {
    this.#take(this.#decoder.end());
    if (this.#rest !== '') this.#line(this.#rest);
    this.#rest = '';
    this.#line('');
  }

  #take(text: string): void {
    if (text === '') return;
    let start = 0;
    if (this.#skipsLf && text.charCodeAt(0) === LF) start = 1;
    this.#skipsLf = false;
    let cr = text.indexOf('\r', start); // servers of engines send none: then only LF is looked for
    let lf = text.indexOf('\n', start);
    while (lf >= 0 || cr >= 0) {
      const isCr = cr >= 0 && (lf < 0 || cr < lf);
      const at = isCr ? cr : lf;
      this.#line(this.#rest + text.slice(start, at));
      this.#rest = '';
      start = at + 1;
      if (isCr && start === text.length) this.#skipsLf = true;
      else if (isCr && text.charCodeAt(start) === LF) start++;
      if (lf >= 0 && lf < start) lf = text.indexOf('\n', start);
      if (cr >= 0 && cr < start) cr = text.indexOf('\r', start);
    }
    this.#rest += text.slice(start);
    if (this.#rest.length + this.#data.length > EVENT_CHARS_MAX) {
      throw workerError(
        'BackendProtocol',
        `an event of the engine's stream is larger than ${EVENT_CHARS_MAX} characters`,
      );
    }
  }

  #line(text: string): void {
    let line = text;
    if (this.#isAtStart) {
      this.#isAtStart = false;
      if (line.charCodeAt(0) === 0xfeff) line = line.slice(1);
    }
    if (line === '') {
      this.#dispatch();
      return;
    }
    if (line !== 'data' && !line.startsWith('data:')) return;
    const value = line.slice(line.charCodeAt(5) === 32 ? 6 : 5);
    this.#data = this.#hasData ? `${this.#data}\n${value}` : value;
    this.#hasData = true;
  }

  #dispatch(): void {
    if (!this.#hasData) return;
    const data = this.#data;
    this.#data = '';
    this.#hasData = false;
    this.#onData(data);
  }
}

/** Turns what an engine answers into output. Every method may throw a `ServeError`, which fails the request. */
export interface AnswerReader {
  /** Whether the answer is a stream of events; else one JSON object. */
  readonly isStream: boolean;
  /** The data of one event, apart from `[DONE]`. */
  event(data: string): void;
  /** Takes a whole answer that is no text. @default it is JSON */
  readonly bytes?: ((bytes: Buffer, headers: IncomingHttpHeaders) => void) | undefined;
  /** Reads the text of a whole answer. @default JSON, or the text itself where it is none */
  readonly parse?: ((text: string) => unknown) | undefined;
  /** The whole answer of a request that does not stream. */
  whole(body: object): void;
  /**
   * The engine said `[DONE]` (`isSaid`), or closed its stream. Writes what is left to write.
   * @throws ServeError `StreamIncomplete` when the answer was cut off
   */
  finish(isSaid: boolean): void;
}

/** A request of ours as one exchange with the engine. */
export interface Plan {
  readonly message: UpstreamMessage;
  readonly reader: AnswerReader;
}

interface ExchangeDeps {
  readonly clock: Clock;
  /** Longest silence of the engine, before its answer and within it. */
  readonly idleTimeoutMs: number;
  /** Rejects when the engine does not serve: asked after an answer that suggests so. */
  probe(signal: AbortSignal): Promise<void>;
}

interface ExchangeStart {
  readonly upstream: Upstream;
  readonly plan: Plan;
  readonly sink: EngineSink;
  /** Drops the exchange; the sink is left alone. */
  readonly signal: AbortSignal;
  /** The first of its events has come and is written. */
  onBegun?(): void;
  /** It was dropped, and its connection closed. */
  onDropped?(): void;
  /** It is over, however it ended. */
  onClosed?(): void;
}

/** The requests that an engine's server has under way. */
export class OpenExchanges {
  readonly #deps: ExchangeDeps;
  readonly #open = new Set<EngineExchange>();

  constructor(deps: ExchangeDeps) {
    this.#deps = deps;
  }

  get count(): number {
    return this.#open.size;
  }

  start(start: ExchangeStart): void {
    const onClosed = (): void => {
      this.#open.delete(exchange);
      start.onClosed?.();
    };
    const exchange = new EngineExchange(this.#deps, { ...start, onClosed });
    this.#open.add(exchange);
    exchange.send();
  }

  fail(error: ServeError): void {
    for (const exchange of [...this.#open]) exchange.fail(error);
  }
}

/**
 * One request at an engine's HTTP server. Reading pauses while the reader has no room.
 *
 * | State | response | data | silence, connection lost | abort |
 * |---|---|---|---|---|
 * | sent | -> streaming, or reads a whole answer | - | fails | drops, silent |
 * | streaming | - | output; `[DONE]` ends | fails | drops, silent |
 * | closed | ignored | ignored | ignored | ignored |
 */
class EngineExchange {
  readonly #deps: ExchangeDeps;
  readonly #start: ExchangeStart;
  readonly #sink: EngineSink;
  readonly #reader: AnswerReader;
  #connection: Connection | undefined;
  #idleTimer: Timer | undefined;
  #lastActivityMs: number;
  #hasBegun = false;
  #isPaused = false;
  #isClosed = false;
  /** A failure is being looked into; what else arrives does not count. */
  #isFailing = false;

  constructor(deps: ExchangeDeps, start: ExchangeStart) {
    this.#deps = deps;
    this.#start = start;
    this.#sink = start.sink;
    this.#reader = start.plan.reader;
    this.#lastActivityMs = deps.clock.nowMs();
  }

  send(): void {
    const { upstream, plan, signal } = this.#start;
    signal.addEventListener('abort', this.#abort, { once: true });
    this.#watchSilence(this.#deps.idleTimeoutMs);
    this.#connection = upstream.send(plan.message, {
      response: (response) => this.#respond(response),
      failed: (error) => this.fail(workerError('EngineShutdown', error)),
    });
  }

  fail(error: ServeError): void {
    if (this.#isClosed) return;
    this.#drop();
    this.#sink.fail(error);
  }

  readonly #abort = (): void => {
    this.#drop();
    this.#start.onDropped?.();
  };

  /** Closes the connection at once and leaves the sink alone. */
  #drop(): void {
    this.#close();
    this.#connection?.drop();
  }

  #respond(response: IncomingMessage): void {
    this.#lastActivityMs = this.#deps.clock.nowMs();
    const status = response.statusCode ?? 0;
    const isEvents = (response.headers['content-type'] ?? '').startsWith('text/event-stream');
    if (status === 200 && this.#reader.isStream && isEvents) this.#stream(response);
    else void this.#whole(response, status).catch((thrown: unknown) => this.fail(lost(thrown)));
  }

  async #whole(response: IncomingMessage, status: number): Promise<void> {
    const bytes = await readBytes(response);
    if (status === 200 && this.#reader.bytes !== undefined) {
      this.#guard(() => {
        this.#reader.bytes?.(bytes, response.headers);
        this.#end();
      });
      return;
    }
    const text = bytes.toString('utf8');
    const { isStream, parse = jsonOrText } = this.#reader;
    const body = status === 200 ? parse(text) : jsonOrText(text);
    if (status !== 200) {
      const retryAfterMs = retryAfterOf(response.headers, this.#deps.clock.wallMs());
      await this.#failOrGone(faultOfStatus(status, readFault(body, 'no message'), retryAfterMs), status >= 500);
    } else if (isStream || typeof body !== 'object' || body === null) {
      this.fail(workerError('BackendProtocol', `engine answered with ${isStream ? 'no event stream' : 'no JSON'}`));
    } else {
      this.#guard(() => {
        this.#reader.whole(body);
        this.#end();
      });
    }
  }

  #stream(response: IncomingMessage): void {
    const parser = new SseParser((data) => this.#event(data));
    response.on('data', (chunk: Buffer) => {
      this.#lastActivityMs = this.#deps.clock.nowMs();
      this.#guard(() => parser.push(chunk));
      if (!this.#isClosed && this.#sink.isBlocked()) this.#pause(response);
    });
    response.once('end', () => {
      this.#guard(() => parser.end());
      this.#guard(() => {
        this.#reader.finish(false);
        this.#end();
      });
    });
    response.once('error', (error) => {
      if (!this.#isFailing) this.fail(lost(error));
    });
  }

  #pause(response: IncomingMessage): void {
    response.pause();
    this.#isPaused = true;
    this.#sink.onUnblocked(() => {
      this.#isPaused = false;
      this.#lastActivityMs = this.#deps.clock.nowMs();
      response.resume();
    });
  }

  #guard(read: () => void): void {
    if (this.#isClosed || this.#isFailing) return;
    try {
      read();
    } catch (thrown) {
      const error = toServeError(thrown);
      // An engine whose core has died says so like any other failure of its own.
      void this.#failOrGone(error, error.worker === 'Unknown');
    }
  }

  /** Fails with `error`, or with the engine's death where that is behind it: then the request can go on elsewhere. */
  async #failOrGone(error: ServeError, isSuspect: boolean): Promise<void> {
    this.#isFailing = true;
    const probe = () => this.#deps.probe(this.#start.signal);
    const isGone =
      isSuspect &&
      (await probe().then(
        () => false,
        () => true,
      )); // any failure of the probe is the answer
    const { cause, retryAfterMs } = error;
    this.fail(isGone ? workerError('EngineShutdown', cause, { retryAfterMs }) : error);
  }

  #event(data: string): void {
    if (this.#isClosed || this.#isFailing) return;
    if (data !== '[DONE]') {
      this.#reader.event(data);
      if (!this.#hasBegun) {
        this.#hasBegun = true;
        this.#start.onBegun?.();
      }
      return;
    }
    this.#reader.finish(true);
    this.#end();
  }

  #end(): void {
    if (this.#isClosed) return;
    this.#close();
    this.#sink.end();
  }

  #close(): void {
    this.#isClosed = true;
    this.#idleTimer?.cancel();
    this.#start.signal.removeEventListener('abort', this.#abort);
    this.#start.onClosed?.();
  }

  /** One timer that is set again only when it fires, so that a chunk costs no timer. */
  #watchSilence(waitMs: number): void {
    const { clock, idleTimeoutMs } = this.#deps;
    this.#idleTimer = clock.after(waitMs, () => {
      const silentMs = this.#isPaused ? 0 : clock.nowMs() - this.#lastActivityMs;
      if (silentMs < idleTimeoutMs) this.#watchSilence(idleTimeoutMs - silentMs);
      else this.fail(workerError('ResponseTimeout', `the engine said nothing for ${idleTimeoutMs} ms`));
    });
  }
}

/**
 * The object of one event.
 * @throws ServeError when it is none, or when it tells of a failure
 */
export function readEvent(data: string): UnknownRecord {
  const body = jsonOrText(data);
  if (!isRecord(body)) throw workerError('BackendProtocol', 'an event of the engine is no JSON');
  if ('error' in body && body.error !== null) throw faultInStream(body);
  return body;
}

function lost(thrown: unknown): ServeError {
  return thrown instanceof ServeError ? thrown : workerError('Disconnected', thrown);
}
