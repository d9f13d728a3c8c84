import { setMaxListeners } from 'node:events';
import type { RequestTrace } from '../../console/index.ts';
import { codeRow, detailOf, isClientCancel, ServeError } from '../../errors/index.ts';
import {
  type Endpoint,
  type GenerationRequest,
  type GenerationSink,
  type RequestType,
  requestKeyOf,
  type Usage,
} from '../../protocol/index.ts';
import {
  continueTrace,
  parseTraceparent,
  type RequestMeter,
  type RequestRecorder,
  type TraceContext,
} from '../../telemetry/index.ts';
import type { ExchangeListener, InferenceDeps, TrackedExchange, TrackedRequest } from './deps.ts';
import { InferenceSpans, roundMs } from './inference-spans.ts';
import { AnswerRoom, KeptSink } from './kept-sink.ts';
import type { Abandonable } from './lifecycle.ts';
import { watchSignals } from './watch-signals.ts';

/** Header by which a client chooses the id of its request. */
export const CHOSEN_ID = 'x-dynamo-request-id';

/** Returns the error for a chosen id that names another request or response, which it could cancel or replace. */
export function idIsTaken(): ServeError {
  const message = `${CHOSEN_ID} names a request that exists: choose another UUID, or leave it out`;
  return new ServeError('invalid_value', message, { param: CHOSEN_ID });
}

/** Metric label of every name that no worker registered, so that clients cannot create series. */
export const UNKNOWN_MODEL = 'unknown_model';

/**
 * Tracks one inference request: its meter, its one log line, its place among the requests in flight. It ends exactly
 * once: by `succeed`, by `fail`, or when the client leaves.
 */
export class RequestTracker<
  Exchange extends TrackedExchange = TrackedExchange,
  Deps extends InferenceDeps = InferenceDeps,
> implements TrackedRequest
{
  readonly exchange: Exchange;
  readonly deps: Deps;
  /** Unix time at which the handler began. */
  readonly receivedMs: number;
  /** Undefined if no spans are made. */
  readonly spans: InferenceSpans | undefined;
  /** Memory of the answer until it is whole; released when the request is over. */
  readonly room: AnswerRoom;
  /** Runs once, when the request is over. */
  onOver: (() => void) | undefined;
  readonly #endpoint: Endpoint;
  readonly #startedMs: number;
  #meter: RequestMeter | undefined;
  #model = UNKNOWN_MODEL;
  #requestType: RequestType = 'unary';
  #request: GenerationRequest | undefined;
  #forget: (() => void) | undefined;
  readonly #trace: RequestTrace | undefined;
  #unwatch: (() => void) | undefined;
  /** The work for the response, and its sink; set once there is one. */
  #work: { readonly controller: AbortController; readonly sink: Abandonable } | undefined;
  #isOver = false;
  #hasSucceeded = false;

  constructor(deps: Deps, exchange: Exchange, endpoint: Endpoint) {
    this.deps = deps;
    this.exchange = exchange;
    this.#endpoint = endpoint;
    this.#startedMs = deps.clock.nowMs();
    this.receivedMs = deps.clock.wallMs();
    this.spans = deps.tracer && new InferenceSpans(deps.tracer, exchange, endpoint);
    this.room = new AnswerRoom(deps.settings.answerLimitBytes, deps.answers);
    deps.lifecycle.entered();
    deps.onTracked?.(this);
    this.#trace = deps.watched?.began({
      endpoint,
      xRequestId: exchange.requestId,
      key: exchange.grant.key?.name,
      receivedMs: this.receivedMs,
    });
  }

  /** Milliseconds since the handler began. */
  get elapsedMs(): number {
    return this.deps.clock.nowMs() - this.#startedMs;
  }

  /** Unix time at which the handler began, in whole seconds, as responses show it. */
  get createdSecs(): number {
    return Math.floor(this.receivedMs / 1000);
  }

  /** Id of the request; undefined until it is identified. */
  get requestId(): string | undefined {
    return this.#request?.id;
  }

  /** Starts the meter, once the model is known. */
  open(model: string, requestType: RequestType): RequestMeter {
    this.#model = model;
    this.#requestType = requestType;
    this.#trace?.named(model);
    this.#meter = this.deps.metrics.startRequest({ model, endpoint: this.#endpoint, requestType });
    return this.#meter;
  }

  /**
   * Takes the decoded request, whose ids go into the log line.
   * @throws ServeError `invalid_value` if the client chose the id of a request that runs here
   */
  identify(request: GenerationRequest): void {
    this.#requireFree(request.id);
    this.#request = request;
    this.spans?.asked(request);
    this.#trace?.identified(request.id);
  }

  #requireFree(id: string): void {
    const isChosen = this.exchange.header(CHOSEN_ID) !== undefined; // a generated id names only this request
    if (isChosen && this.deps.lifecycle.running.has(id)) throw idIsTaken(); // even if the request has another owner
  }

  /** Owner of the request. */
  get owner(): string {
    return this.exchange.grant.owner;
  }

  /**
   * Returns the suffix of the response's id by which any edge can cancel the request; empty if edges share no secret.
   * @param id the response's id
   * @param isShared whether several workers may have a part of the request
   */
  nameOf(id: string, isShared: boolean): string {
    const { names } = this.deps;
    const key = requestKeyOf(id);
    if (names === undefined || key === undefined) return '';
    const workerId = isShared ? undefined : this.#meter?.workerId;
    return `_${names.suffixOf({ key, workerId }, this.owner)}`;
  }

  /** Whether the client got its response. */
  get hasSucceeded(): boolean {
    return this.#hasSucceeded;
  }

  get ttftMs(): number | undefined {
    return this.#meter?.ttftMs;
  }

  /**
   * Returns the signal that ends the work when the client of `sink` has left or the request has failed. The request
   * must have been identified; from here on it can be cancelled by its id.
   * @throws ServeError `invalid_value` if another request has taken that id since
   */
  watch(sink: Abandonable): AbortSignal {
    const controller = new AbortController();
    setMaxListeners(0, controller.signal); // a batch listens once for each of its prompts, whose number is bounded
    this.#work = { controller, sink }; // a refusal from here on ends the sink, and with it the sink's timers
    if (this.#request !== undefined) this.#requireFree(this.#request.id);
    const listener: ExchangeListener = {
      left: () => {
        controller.abort();
        sink.abandon();
        this.#abandoned();
      },
      late: () => this.breakOff(new ServeError('deadline_exceeded', 'Request deadline exceeded')),
    };
    const unwatch = this.exchange.watch?.(listener) ?? watchSignals(this.exchange, listener);
    if (this.#isOver) unwatch();
    else this.#unwatch = unwatch; // other requests may come on the same stream
    const id = this.#request?.id;
    if (!this.#isOver && id !== undefined)
      this.#forget = this.deps.lifecycle.running.add(id, this.owner, (error) => this.breakOff(error), sink);
    return controller.signal;
  }

  /** Returns the sink that the answer goes to: one that also shows it to operators, if they may see answers. */
  shown(request: GenerationRequest, sink: GenerationSink): GenerationSink {
    return this.#trace?.shown(request, sink) ?? sink;
  }

  /** Returns a sink that counts what `sink` keeps until the answer is whole. @throws ServeError `server_overloaded` */
  kept(sink: GenerationSink): GenerationSink {
    if (this.room.isEmpty) this.room.take(1); // do not begin a request that has no room for its first word
    return new KeptSink(this, sink);
  }

  /** Ends the work and the response with a failure. Does nothing before there is a sink. */
  breakOff(error: ServeError): void {
    this.#work?.controller.abort();
    this.#work?.sink.fail(error);
  }

  answeredElsewhere(usage: Usage | undefined): void {
    this.#work?.sink.abandon();
    this.succeed(usage);
  }

  failedElsewhere(error: ServeError, status: number): void {
    this.#work?.sink.abandon();
    this.fail(error, status);
  }

  /** Ends the request as a success. @param usage undefined if the worker reported none */
  succeed(usage: Usage | undefined): void {
    if (this.#close()) return;
    this.#hasSucceeded = true;
    this.#meter?.end({ status: 'success' });
    this.#tell(this.exchange.transport.okStatus, usage);
  }

  /**
   * Ends the request as a failure. @param status the status that the client got: a success if the failure came inside a
   * stream
   */
  fail(error: ServeError, status: number): void {
    if (this.#close()) return;
    this.#work?.controller.abort();
    const { metrics } = this.deps;
    metrics.failed(error);
    this.exchange.failed(error);
    if (error.code === 'server_overloaded') metrics.rejected(this.#model, this.#endpoint);
    if (this.#work !== undefined && isClientCancel(error))
      metrics.cancelled(this.#model, this.#cancelledEndpoint, this.#requestType);
    const meter = this.#meter ?? this.open(UNKNOWN_MODEL, 'unary');
    meter.end({ status: 'error', errorType: codeRow(error.code).metric });
    this.#tell(status, undefined, error);
  }

  #abandoned(): void {
    if (this.#close()) return;
    const { metrics } = this.deps;
    metrics.disconnected();
    metrics.cancelled(this.#model, this.#cancelledEndpoint, this.#requestType);
    this.#meter?.end({ status: 'error', errorType: 'cancelled' });
    this.#tell(
      this.exchange.transport.goneStatus,
      undefined,
      new ServeError('client_closed_request', 'client disconnected'),
    );
  }

  get #cancelledEndpoint(): string {
    return this.exchange.transport.cancelledEndpoints?.[this.#endpoint] ?? this.#endpoint;
  }

  #close(): boolean {
    if (this.#isOver) return true;
    this.#isOver = true;
    this.#forget?.();
    this.#unwatch?.();
    this.deps.lifecycle.left();
    this.room.release();
    return false;
  }

  #tell(status: number, told: Usage | undefined, error?: ServeError): void {
    const usage = told ?? this.#usedUntil(error);
    this.#charge(usage);
    this.#log(status, usage, error);
    this.#show(status, usage, error);
    this.#endSpans(status, usage, error);
    if (this.deps.records !== undefined) this.#record(this.deps.records, status, usage, error);
    this.onOver?.();
  }

  /**
   * Returns what a worker had computed when a request ended without usage, as when its client left in the middle of a
   * stream. Undefined if no worker had it, or if the server failed it before its first token.
   */
  #usedUntil(error: ServeError | undefined): Usage | undefined {
    const meter = this.#meter;
    if (meter?.workerId === undefined) return undefined;
    return error !== undefined && error.status >= 500 && meter.ttftMs === undefined ? undefined : meter.usage;
  }

  /** Charges the key's owner for the work of a worker. */
  #charge(usage: Usage | undefined): void {
    if (usage === undefined || this.#meter === undefined) return;
    const tokens = Math.max(tokensOf(usage), tokensOf(this.#meter.usage));
    if (tokens > 0) this.exchange.grant.spent(tokens);
  }

  /** Records the request for operators (`DYN_REQUEST_TRACE`). */
  #record(
    records: Pick<RequestRecorder, 'requestEnded'>,
    status: number,
    usage: Usage | undefined,
    error: ServeError | undefined,
  ): void {
    const request = this.#request;
    if (request === undefined) return; // never decoded: there is nothing to replay or to attribute
    records.requestEnded({
      requestId: request.id,
      clientRequestId: this.exchange.header('x-request-id'),
      model: this.#model,
      endpoint: this.#endpoint,
      status,
      errorType: error === undefined ? undefined : codeRow(error.code).metric,
      receivedMs: this.receivedMs,
      totalMs: this.elapsedMs,
      ttftMs: this.ttftMs,
      inputTokens: usage?.promptTokens,
      outputTokens: usage?.completionTokens,
      cachedTokens: usage?.cachedTokens,
      agentContext: request.agentContext,
    });
  }

  /** Writes the one log line of the request. */
  #log(status: number, usage: Usage | undefined, error?: ServeError): void {
    if (this.deps.logger.isQuiet === true) return;
    const { ttftMs } = this;
    const failure = error && {
      error_type: codeRow(error.code).metric,
      error_detail: detailOf(error), // includes what clients do not get
      error_cause: error.code === 'internal_error' ? error.cause : undefined, // a bug of the server: with its stack
    };
    const told = {
      model: this.#model,
      status,
      key: this.exchange.grant.key?.name,
      worker: this.#meter?.workerId,
      prompt: usage?.promptTokens,
      cached: usage?.cachedTokens,
      output: usage?.completionTokens,
      moved: this.#meter?.moves || undefined, // zero is left out
      ttft_ms: ttftMs && Math.round(ttftMs),
      ms: Math.round(this.elapsedMs),
      ...failure,
    };
    this.deps.logger.info('request completed', told, { ...this.#allFigures(status, usage), ...failure });
  }

  /** Returns the fields of the line that machines read. */
  #allFigures(status: number, usage: Usage | undefined): Readonly<Record<string, unknown>> {
    const span = this.#traceIds();
    const { key, owner } = this.exchange.grant;
    return {
      request_id: this.#request?.id,
      x_request_id: this.exchange.requestId,
      trace_id: span.traceId,
      span_id: span.spanId,
      key_id: key?.id,
      key_name: key?.name,
      owner: key && owner,
      model: this.#model,
      endpoint: this.#endpoint,
      request_type: this.#requestType,
      status,
      elapsed_ms: roundMs(this.elapsedMs),
      ttft_ms: this.ttftMs === undefined ? undefined : roundMs(this.ttftMs),
      input_tokens: usage?.promptTokens,
      cached_tokens: usage?.cachedTokens,
      output_tokens: usage?.completionTokens,
      worker_id: this.#meter?.workerId,
      moves: this.#meter?.moves || undefined,
    };
  }

  /** Shows the outcome to operators. */
  #show(status: number, usage: Usage | undefined, error: ServeError | undefined): void {
    this.#trace?.ended({
      status,
      error: error === undefined ? undefined : codeRow(error.code).metric,
      worker: this.#meter?.workerId,
      promptTokens: usage?.promptTokens,
      cachedTokens: usage?.cachedTokens,
      outputTokens: usage?.completionTokens,
      ttftMs: this.ttftMs,
      totalMs: this.elapsedMs,
    });
  }

  #endSpans(status: number, usage: Usage | undefined, error: ServeError | undefined): void {
    if (this.spans === undefined) return;
    const gapMs = this.#meanGapMs(usage?.completionTokens);
    this.spans.end(this.#model, { status, usage, error, ttftMs: this.ttftMs, gapMs });
  }

  /** Returns the mean time between tokens after the first one. */
  #meanGapMs(outputTokens: number | undefined): number | undefined {
    if (this.ttftMs === undefined || outputTokens === undefined || outputTokens < 2) return undefined;
    return (this.elapsedMs - this.ttftMs) / (outputTokens - 1);
  }

  /**
   * Returns the ids that the worker continues. A request that was refused before it was decoded gets ids in the
   * caller's trace.
   */
  #traceIds(): Pick<TraceContext, 'traceId' | 'spanId'> {
    const { exchange, deps } = this;
    if (this.spans !== undefined) return this.spans.transport.context;
    const decoded = parseTraceparent(this.#request?.trace.traceparent);
    return decoded ?? continueTrace({ traceparent: exchange.header('traceparent') }, deps.random);
  }
}

function tokensOf({ promptTokens, completionTokens }: Pick<Usage, 'promptTokens' | 'completionTokens'>): number {
  return promptTokens + completionTokens;
}
