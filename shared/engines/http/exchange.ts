import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import type { Clock, Timer } from '../../clock/index.ts';
import {
  faultInAnswer,
  faultOfStatus,
  isFault,
  nameOfStatus,
  readFault,
  ServeError,
  toServeError,
  workerError,
} from '../../errors/index.ts';
import { isRecord, type UnknownRecord } from '../../records/index.ts';
import type { EngineSink } from '../types.ts';
import { AnswerForm, decodedBody } from './answer-body.ts';
import { SseParser } from './sse-parser.ts';
import {
  type Exchange as Connection,
  jsonOrText,
  readBytes,
  retryAfterOf,
  type Upstream,
  type UpstreamMessage,
} from './upstream.ts';

/** Time for which an answer may stay open after its finish: only its usage could follow. */
const AFTER_FINISH_MS = 5000;

/** Converts the answer of an engine to output. Every method may throw a `ServeError`, which fails the request. */
export interface AnswerReader {
  /** Whether every requested choice has sent its finish. @default false */
  readonly isFinished?: boolean;
  /** Takes the data of one event, except `[DONE]`, and its name; empty if it has none. */
  event(data: string, name: string): void;
  /** Takes a whole answer that is not text. @default it is JSON */
  readonly bytes?: ((bytes: Buffer, headers: IncomingHttpHeaders) => void) | undefined;
  /** Reads the text of a whole answer. @default JSON, or the text itself if it is not JSON */
  readonly parse?: ((text: string) => unknown) | undefined;
  /** Takes an answer that is one object, even if a stream was requested. */
  whole(body: object): void;
  /**
   * Ends the answer: the engine sent `[DONE]` (`isSaid`), or closed its stream. Writes the remaining output.
   * @throws ServeError `StreamIncomplete` when the answer was cut off
   */
  finish(isSaid: boolean): void;
}

/** One request as an exchange with the engine. */
export interface Plan {
  readonly message: UpstreamMessage;
  readonly reader: AnswerReader;
}

interface ExchangeDeps {
  readonly clock: Clock;
  /** Longest silence of the engine, before its answer and within it. */
  readonly idleTimeoutMs: number;
  /** Rejects when the engine does not serve. Called after an answer that suggests so. */
  probe(signal: AbortSignal): Promise<void>;
}

interface ExchangeStart {
  readonly upstream: Upstream;
  readonly plan: Plan;
  readonly sink: EngineSink;
  /** Signal that drops the exchange without writing to the sink. */
  readonly signal: AbortSignal;
  /** Called when the first event has arrived and was written. */
  onBegun?(): void;
  /** Called when the exchange was dropped and its connection closed. */
  onDropped?(): void;
  /** Called when the exchange is over, however it ended. */
  onClosed?(): void;
}

/** Requests that are under way at an engine's server. */
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
 * | streaming | - | output; `[DONE]` ends | fails; ends if the finish has come | drops, silent |
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
  /** Whether the finish has come; only usage may follow. */
  #isEnding = false;
  /** Whether a failure is being investigated; anything else that arrives is ignored. */
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

  /** Closes the connection at once without writing to the sink. */
  #drop(): void {
    this.#close();
    this.#connection?.drop();
  }

  #respond(response: IncomingMessage): void {
    this.#lastActivityMs = this.#deps.clock.nowMs();
    const status = response.statusCode ?? 0;
    if (status < 200 || status >= 300) this.#settle(this.#refused(response, status));
    else if (this.#reader.bytes !== undefined) this.#settle(this.#bytes(response));
    else this.#guard(() => this.#read(decodedBody(response), response));
  }

  #settle(work: Promise<void>): void {
    work.catch((thrown: unknown) => this.fail(lost(thrown)));
  }

  async #refused(response: IncomingMessage, status: number): Promise<void> {
    const bytes = await readBytes(response);
    const { location } = response.headers;
    const fault = readFault(jsonOrText(bytes.toString('utf8')), nameOfStatus(status));
    const described = location === undefined ? fault : { ...fault, message: `${fault.message}, to ${location}` };
    const retryAfterMs = retryAfterOf(response.headers, this.#deps.clock.wallMs());
    await this.#failOrGone(faultOfStatus(status, described, retryAfterMs), status >= 500);
  }

  async #bytes(response: IncomingMessage): Promise<void> {
    const bytes = await readBytes(response);
    this.#guard(() => {
      this.#reader.bytes?.(bytes, response.headers);
      this.#end();
    });
  }

  #read(body: Readable, { headers, statusCode }: IncomingMessage): void {
    const parser = new SseParser((data, name) => this.#event(data, name));
    const form = new AnswerForm(headers, (chunk) => parser.push(chunk));
    body.on('data', (chunk: Buffer) => {
      this.#lastActivityMs = this.#deps.clock.nowMs();
      this.#guard(() => form.push(chunk));
      if (!this.#isClosed && form.isEvents && this.#sink.isBlocked()) this.#pause(body);
    });
    body.once('end', () => {
      this.#guard(() => {
        const whole = form.end();
        if (whole === undefined) this.#endEvents(parser);
        else this.#whole(whole.toString('utf8'), statusCode);
      });
    });
    body.once('error', (error) => {
      if (this.#reader.isFinished === true) this.#guard(() => this.#endEvents(parser));
      else if (!this.#isFailing) this.fail(lost(error));
    });
  }

  #endEvents(parser: SseParser): void {
    parser.end();
    if (this.#isClosed) return;
    this.#reader.finish(false);
    this.#end();
  }

  #whole(text: string, status = 0): void {
    const body = (this.#reader.parse ?? jsonOrText)(text);
    if (typeof body === 'object' && body !== null) {
      const first: unknown = Array.isArray(body) ? body[0] : body;
      if (isRecord(first) && isFault(first)) throw faultInAnswer(body);
      this.#reader.whole(body);
      this.#end();
      return;
    }
    const lines = linesOfJson(text);
    if (lines.length === 0) {
      const said =
        text.trim() === '' ? 'an empty body' : `text that is not JSON: ${readFault(text, '').message.slice(0, 200)}`;
      throw workerError('BackendProtocol', `engine answered ${status} with ${said}`);
    }
    for (const line of lines) this.#event(line, '');
    if (this.#isClosed) return;
    this.#reader.finish(false);
    this.#end();
  }

  #pause(response: Readable): void {
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
      // An engine whose core has died reports it like any other internal failure.
      void this.#failOrGone(error, error.worker === 'Unknown');
    }
  }

  /**
   * Fails with `error`, or with the engine's death if that caused it: then the request can continue on another worker.
   */
  async #failOrGone(error: ServeError, isSuspect: boolean): Promise<void> {
    this.#isFailing = true;
    const probe = () => this.#deps.probe(this.#start.signal);
    const isGone =
      isSuspect &&
      (await probe().then(
        () => false,
        () => true,
      )); // any failure of the probe means that it is gone
    const { cause, retryAfterMs } = error;
    this.fail(isGone ? workerError('EngineShutdown', cause, { retryAfterMs }) : error);
  }

  #event(data: string, name: string): void {
    if (this.#isClosed || this.#isFailing) return;
    if (data.startsWith('[') && data.trim() === '[DONE]') {
      this.#reader.finish(true);
      this.#end();
      return;
    }
    this.#reader.event(data, name);
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      this.#start.onBegun?.();
    }
    if (this.#reader.isFinished !== true || this.#isEnding) return;
    this.#isEnding = true;
    this.#idleTimer?.cancel();
    this.#watchSilence(AFTER_FINISH_MS);
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

  /** Watches for silence with one timer that is set again only when it fires, so that a chunk costs no timer. */
  #watchSilence(waitMs: number): void {
    const { clock, idleTimeoutMs } = this.#deps;
    this.#idleTimer = clock.after(waitMs, () => {
      const silentMs = this.#isPaused ? 0 : clock.nowMs() - this.#lastActivityMs;
      const limitMs = this.#isEnding ? AFTER_FINISH_MS : idleTimeoutMs;
      if (silentMs < limitMs) this.#watchSilence(limitMs - silentMs);
      else if (this.#isEnding) this.#endSilent();
      else this.fail(workerError('ResponseTimeout', `the engine sent nothing for ${idleTimeoutMs} ms`));
    });
  }

  /** Ends an answer whose finish has come although the engine leaves its stream open. */
  #endSilent(): void {
    this.#guard(() => {
      this.#reader.finish(false);
      this.#end();
    });
    this.#connection?.drop();
  }
}

/** Names that some servers give to the events that keep a stream alive. */
const KEEP_ALIVES: ReadonlySet<string> = new Set(['ping', 'heartbeat', 'keepalive', 'keep-alive']);

/**
 * Returns the object of one event; undefined if the event has no content.
 * @throws ServeError when it is not an object, or reports a failure
 */
export function readEvent(data: string, name: string): UnknownRecord | undefined {
  const body = jsonOrText(data);
  if (name === 'error') throw faultInAnswer(body);
  if (isRecord(body)) {
    if (isFault(body)) throw faultInAnswer(body);
    return body;
  }
  if (data.trim() === '' || KEEP_ALIVES.has(name)) return undefined;
  throw workerError('BackendProtocol', `an event of the engine is not JSON: ${data.slice(0, 200)}`);
}

/**
 * Returns the lines of a text in which each is a JSON object, as some servers stream them; empty for any other text.
 */
function linesOfJson(text: string): readonly string[] {
  const lines = text.split('\n').filter((line) => line.trim() !== '' && line.trim() !== '[DONE]');
  return lines.length > 1 && lines.every((line) => isRecord(jsonOrText(line))) ? lines : [];
}

function lost(thrown: unknown): ServeError {
  return thrown instanceof ServeError ? thrown : workerError('Disconnected', thrown);
}
