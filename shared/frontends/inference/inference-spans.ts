import { codeRow, isClientCancel, type ServeError } from '../../errors/index.ts';
import { ENDPOINTS, type Endpoint, type GenerationRequest, type Usage } from '../../protocol/index.ts';
import type { Span, SpanAttributes, Tracer } from '../../telemetry/index.ts';
import type { TrackedExchange } from './deps.ts';

/** Name of the answering system in traces. */
const PROVIDER = 'stator';

/** Output types of the endpoints whose output is not text. */
const OUTPUT_TYPES: Partial<Readonly<Record<Endpoint, string>>> = { images: 'image', videos: 'video' };

/** Outcome of a request, for its spans. */
interface Ending {
  /** Status of the response. */
  readonly status: number;
  readonly usage: Usage | undefined;
  readonly error: ServeError | undefined;
  readonly ttftMs: number | undefined;
  /** Mean time between tokens after the first. */
  readonly gapMs: number | undefined;
}

/**
 * The two spans of one inference request. `transport` describes the request as any server would, with the fields of
 * Dynamo's span. `operation` is its child and describes what the client asked of the model. The steps of the work are
 * children of `operation`.
 */
export class InferenceSpans {
  readonly transport: Span;
  readonly operation: Span;
  readonly #exchange: TrackedExchange;
  readonly #endpoint: Endpoint;
  #isStream = false;
  #response: { readonly id: string; readonly isSent: boolean } | undefined;

  constructor(tracer: Tracer, exchange: TrackedExchange, endpoint: Endpoint) {
    this.#exchange = exchange;
    this.#endpoint = endpoint;
    const headers = { traceparent: exchange.header('traceparent'), tracestate: exchange.header('tracestate') };
    const { name, attributes } = exchange.spanStart();
    const told = { endpoint, x_request_id: exchange.requestId, ...attributes };
    this.transport = tracer.begin(name, headers, { kind: 'server', attributes: told });
    const { operation } = ENDPOINTS[endpoint];
    const asked = { 'gen_ai.operation.name': operation, 'gen_ai.provider.name': PROVIDER };
    this.operation = this.transport.child(operation, { kind: 'client', attributes: asked });
  }

  /**
   * Names the model. @param primaryName as a worker registered it; undefined for other names, of which clients can make
   * any number
   */
  named(asked: string, primaryName: string | undefined): void {
    this.operation.set({ 'gen_ai.request.model': asked, 'gen_ai.response.model': primaryName });
    if (primaryName !== undefined) this.operation.name = `${ENDPOINTS[this.#endpoint].operation} ${asked}`;
  }

  /** Adds what the decoded request asks for. */
  asked(request: GenerationRequest): void {
    this.#isStream = request.stream;
    this.transport.set({ request_id: request.id });
    this.operation.set(askedAttributes(request, this.#endpoint));
  }

  /**
   * Sets the id of the response. @param isSent the client has the id already; otherwise it gets it with the whole
   * response
   */
  answersAs(id: string, isSent: boolean): void {
    this.#response = { id, isSent };
  }

  end(model: string, ending: Ending): void {
    const { status, usage, error, ttftMs, gapMs } = ending;
    const isCancelled = error !== undefined && isClientCancel(error);
    const outcome = error === undefined ? 'success' : codeRow(error.code).metric;
    this.#endOperation(ending, isCancelled);
    const { prefill_worker_id, decode_worker_id } = this.operation.attributes;
    // In a call of its own: members after a spread are slow to add to a literal.
    this.transport.set(this.#exchange.spanEnd(status));
    this.transport.set({
      model,
      prefill_worker_id,
      decode_worker_id,
      input_tokens: usage?.promptTokens,
      output_tokens: usage?.completionTokens,
      ttft_ms: ttftMs === undefined ? undefined : roundMs(ttftMs),
      avg_itl_ms: gapMs === undefined ? undefined : roundMs(gapMs),
      'request.outcome': outcome,
    });
    const isOurs = error !== undefined && !isCancelled && this.#exchange.isOurFault(error, status);
    this.transport.end(isOurs ? error.code : undefined);
  }

  #endOperation({ usage, error, ttftMs }: Ending, isCancelled: boolean): void {
    const response = error === undefined || this.#response?.isSent === true ? this.#response?.id : undefined;
    this.operation.set({
      'gen_ai.response.id': response,
      'gen_ai.response.time_to_first_chunk': this.#isStream && ttftMs !== undefined ? ttftMs / 1000 : undefined,
      'gen_ai.usage.input_tokens': usage?.promptTokens,
      'gen_ai.usage.output_tokens': usage?.completionTokens,
      'gen_ai.usage.cache_read.input_tokens': usage?.cachedTokens,
      'gen_ai.usage.reasoning.output_tokens': usage?.reasoningTokens,
    });
    this.operation.end(error === undefined || isCancelled ? undefined : error.code);
  }
}

/** Returns attributes for what the client asked for, without what it left to defaults. */
function askedAttributes(request: GenerationRequest, endpoint: Endpoint): SpanAttributes {
  const { stop, sampling, stream, reasoning } = request;
  const isJson = sampling.guided_decoding?.json !== undefined;
  return {
    'gen_ai.request.stream': stream || undefined, // absent means: not a stream
    'gen_ai.request.max_tokens': stop.max_tokens,
    'gen_ai.request.stop_sequences': stop.stop?.length === 0 ? undefined : stop.stop,
    'gen_ai.request.temperature': sampling.temperature,
    'gen_ai.request.top_p': sampling.top_p,
    'gen_ai.request.top_k': sampling.top_k,
    'gen_ai.request.frequency_penalty': sampling.frequency_penalty,
    'gen_ai.request.presence_penalty': sampling.presence_penalty,
    'gen_ai.request.seed': sampling.seed,
    'gen_ai.request.choice.count': sampling.n === 1 ? undefined : sampling.n,
    'gen_ai.request.reasoning.level': reasoning?.effort,
    'gen_ai.output.type': OUTPUT_TYPES[endpoint] ?? (isJson ? 'json' : undefined),
  };
}

/** Rounds milliseconds as traces and records show them. */
export function roundMs(ms: number): number {
  return Math.round(ms * 100) / 100;
}
