import type { Engine, EngineSink } from '../../engines/index.ts';
import { codeRow, isInhibiting, type ServeError, toServeError, toWire, workerError } from '../../errors/index.ts';
import type { IncomingCall } from '../../planes/index.ts';
import {
  cutLongOutput,
  decodeEngineRequest,
  type EngineOutput,
  type EngineRequest,
  isMovable,
  MOVES_HEADER,
  RETRY_HEADER,
  requestKeyOf,
} from '../../protocol/index.ts';
import { isRecord } from '../../records/index.ts';
import {
  type Logger,
  parseTraceparent,
  type Span,
  type Tracer,
  type WorkerErrorType,
  type WorkerMetrics,
  type WorkerRequestMeter,
} from '../../telemetry/index.ts';

import { type TrafficCounter, type TrafficMeter, UNSEEN } from '../events/rollup-reporter.ts';

export interface ServedCallDeps {
  readonly engine: Engine;
  /** Whether the engine accepts prompts that are embeddings. @default true */
  readonly takesPromptEmbeds?: boolean | undefined;
  readonly metrics: WorkerMetrics;
  readonly logger: Logger;
  /** Counts every request except canaries, for planners. */
  readonly traffic?: TrafficCounter | undefined;
  /** Creates a span for every request except canaries; undefined = no spans. */
  readonly tracer?: Tracer | undefined;
  /** Admits the request. The receiver calls `run` now or later, which passes the request to the engine. */
  admit(call: ServedCall): void;
  /** Called when the engine has answered with anything. */
  readonly onActivity?: (() => void) | undefined;
  /** Called when the call has failed as if the engine were gone. */
  readonly onDoubt?: (() => void) | undefined;
  /** Called when the call has ended in any way. */
  onOver(call: ServedCall): void;
}

/**
 * One request at the worker, between the plane and the engine. It counts the request, aborts it at the engine when no
 * client wants it any more, and lets the worker fail it. The request may wait between `start` and `run`; the same
 * events end it there.
 *
 * | Event | engine | caller reads | outcome |
 * |---|---|---|---|
 * | engine ends or fails | - | end or error | success or `generate` |
 * | STOP | aborted | the output so far, then end | cancelled |
 * | KILL (another worker continues, or no client wants it), lost, deadline | aborted | nothing more | cancelled |
 * | `fail` by the worker | aborted | the error | `generate` |
 * | `cancel` from another edge | aborted | that its client cancelled it | cancelled |
 */
export class ServedCall implements EngineSink {
  readonly #call: IncomingCall;
  readonly #deps: ServedCallDeps;
  readonly #meter: WorkerRequestMeter;
  readonly #traffic: TrafficMeter;
  readonly #span: Span | undefined;
  readonly #aborter = new AbortController();
  #request: EngineRequest | undefined;
  #isOver = false;
  #wasCut = false;
  #hasOutput = false;
  #responseTokens = 0;

  constructor(call: IncomingCall, deps: ServedCallDeps) {
    this.#call = call;
    this.#deps = deps;
    this.#meter = isCanary(call) ? UNCOUNTED : deps.metrics.requestStarted(call.tokenIds?.byteLength ?? 0);
    this.#traffic = (isCanary(call) ? undefined : deps.traffic?.begin(this.promptTokens, isRetry(call))) ?? UNSEEN;
    const { traceparent, tracestate, 'x-request-id': x_request_id } = call.headers;
    const attributes = { request_id: call.id, x_request_id };
    this.#span = isCanary(call)
      ? undefined
      : deps.tracer?.begin('handle_payload', { traceparent, tracestate }, { kind: 'server', attributes });
  }

  /** Whether another worker could continue the request. */
  get isMovable(): boolean {
    return this.#request === undefined || isMovable(this.#request);
  }

  /** Whether the worker can ask the caller to move the request, rather than guess. */
  get isAsked(): boolean {
    return this.#call.hearsMoves && this.#call.headers[MOVES_HEADER] !== undefined;
  }

  /** Whether its caller has moved it to another worker. */
  get wasMoved(): boolean {
    return this.#call.wasMoved;
  }

  /** Data-parallel rank that must serve it. */
  get dpRank(): number {
    return this.#request?.routing.dp_rank ?? 0;
  }

  get promptTokens(): number {
    return this.#call.tokenIds?.length ?? 0;
  }

  /** Reads the request and asks for its admission. */
  start(): void {
    const call = this.#call;
    call.stopped.addEventListener('abort', () => this.#stop(), { once: true });
    if (call.stopped.aborted) {
      this.#stop();
      return;
    }
    try {
      this.#request = this.#decode();
    } catch (thrown) {
      this.#fail(toServeError(thrown), 'deserialization');
      return;
    }
    this.#deps.admit(this);
    if (!this.#isOver) call.accept();
  }

  /** Hands the request to the engine. Call it once. */
  run(): void {
    const request = this.#request;
    if (request === undefined || this.#isOver) return;
    try {
      this.#deps.engine.generate(request, this, this.#aborter.signal);
    } catch (thrown) {
      this.fail(toServeError(thrown));
    }
  }

  tokens(choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    if (!this.#hasOutput) this.#firstOutput();
    this.#deps.onActivity?.();
    this.#responseTokens += count;
    this.#call.tokens(choice, ids, start, count);
  }

  output(output: EngineOutput): void {
    if (!this.#hasOutput) this.#firstOutput();
    this.#deps.onActivity?.();
    this.#responseTokens += output.token_ids?.length ?? 0;
    const cached = output.completion_usage?.prompt_tokens_details?.cached_tokens;
    if (cached !== undefined) this.#traffic.cached(cached);
    for (const piece of cutLongOutput(output)) this.#call.output(piece);
  }

  end(): void {
    if (this.#isOver) return;
    this.#call.end();
    this.#close('success');
  }

  fail(error: ServeError): void {
    this.#fail(error, 'generate');
    if (isInhibiting(error)) this.#deps.onDoubt?.();
  }

  isBlocked(): boolean {
    return this.#call.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.#call.onUnblocked(callback);
  }

  /** Ends the call from the worker's side: the engine drops it, the caller reads `error`. */
  breakOff(error: ServeError): void {
    if (this.#isOver) return;
    this.#fail(error, 'generate');
    this.#aborter.abort(error);
  }

  /** Asks the caller to move the request to another worker, because this one is about to end. */
  askToMove(): void {
    this.#call.askToMove();
  }

  /** The part that all ids of the request share. */
  get key(): string | undefined {
    return requestKeyOf(this.#call.id);
  }

  /**
   * Whether another worker may continue the request: it ended early and, as far as this worker knows, not because its
   * client wanted that.
   */
  get wasCut(): boolean {
    return this.#wasCut;
  }

  /** Ends the call because its client cancelled the request in another way than over this call. */
  cancel(): void {
    if (this.#isOver) return;
    const error = workerError('CancelledByClient');
    this.#call.fail(error);
    this.#close('cancelled');
    this.#aborter.abort(error);
  }

  /** Decodes the request. @throws ServeError for the caller: the mistake is in the request */
  #decode(): EngineRequest {
    const { id, body, tokenIds } = this.#call;
    if (!isRecord(body)) throw workerError('InvalidArgument', 'the request is not a record');
    const request = decodeEngineRequest(id, body, tokenIds);
    if (this.#deps.takesPromptEmbeds === false) refuseEmbeds(request);
    const trace = traceOf(this.#call.headers, this.#span);
    return trace === undefined ? request : { ...request, trace };
  }

  #firstOutput(): void {
    this.#hasOutput = true;
    this.#meter.firstResponse();
    this.#traffic.firstOutput();
  }

  #stop(): void {
    if (this.#isOver) return;
    this.#wasCut = true;
    this.#aborter.abort(this.#call.stopped.reason);
    this.#call.end(); // does nothing if the stream is already gone
    this.#close('cancelled');
  }

  #fail(error: ServeError, type: WorkerErrorType): void {
    if (this.#isOver) return;
    this.#wasCut = true;
    const { logger } = this.#deps;
    const { id, headers } = this.#call;
    logger[codeRow(error.code).level]('request failed', {
      request_id: id,
      x_request_id: headers['x-request-id'],
      trace_id: parseTraceparent(headers.traceparent)?.traceId,
      ...toWire(error),
      error_cause: error.code === 'internal_error' ? error.cause : undefined, // a mistake in code: the cause says where
    });
    this.#call.fail(error);
    this.#close(type, error);
  }

  #close(outcome: 'success' | 'cancelled' | WorkerErrorType, error?: ServeError): void {
    this.#isOver = true;
    this.#meter.responseBytes(this.#responseTokens * Uint32Array.BYTES_PER_ELEMENT);
    this.#meter.end(outcome);
    this.#traffic.end(outcome === 'success', this.#responseTokens);
    this.#span?.set({ input_tokens: this.promptTokens, output_tokens: this.#responseTokens });
    if (outcome === 'cancelled') this.#span?.set({ ended_by: outcome });
    this.#span?.end(error && (error.worker ?? error.code));
    this.#deps.onOver(this);
  }
}

/** Refuses embeddings. @throws ServeError that names the field, and what the model's operator must change */
function refuseEmbeds({ input }: EngineRequest): void {
  if (input.kind !== 'tokens' || input.promptEmbeds === undefined) return;
  const says = 'this model takes no prompt_embeds: its workers need vLLM with --enable-prompt-embeds';
  throw workerError('InvalidArgument', says, { param: 'prompt_embeds' });
}

/** Meter of canaries, which are not traffic. */
const UNCOUNTED: WorkerRequestMeter = { firstResponse() {}, responseBytes() {}, end() {} };

/** Returns whether the request was at another worker before. */
export function isRetry({ headers }: Pick<IncomingCall, 'headers'>): boolean {
  return headers[RETRY_HEADER] !== undefined;
}

/** Returns whether the call is a canary, with which a frontend asks for a sign of life. */
export function isCanary({ body }: IncomingCall): boolean {
  return (body as { readonly _HEALTH_CHECK?: unknown } | null | undefined)?._HEALTH_CHECK === true;
}

function traceOf(headers: Readonly<Record<string, string>>, span: Span | undefined): EngineRequest['trace'] {
  const { tracestate, 'x-request-id': requestId } = headers;
  const traceparent = span?.context.traceparent ?? headers.traceparent;
  if (traceparent === undefined && requestId === undefined) return undefined;
  return {
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(tracestate === undefined ? {} : { tracestate }),
    ...(requestId === undefined ? {} : { requestId }),
  };
}
