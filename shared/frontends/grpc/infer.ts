import type { Grant } from '../../access/index.ts';
import type { Timer } from '../../clock/index.ts';
import { endOfTurn } from '../../concurrency/index.ts';
import type { ModelType } from '../../discovery/index.ts';
import { LIMITS, ServeError, toServeError } from '../../errors/index.ts';
import { type GrpcCall, GrpcStatus, onceRead, STATUS, statusOf } from '../../grpc/index.ts';
import { servesType } from '../../pipeline/index.ts';
import {
  assembleTextless,
  completionsOf,
  decodeCompletions,
  decodeModelInferRequest,
  encodeModelStreamInferResponse,
  type GenerationRequest,
  type ModelInferRequest,
  parseCompletionsBody,
  tensorRequestOf,
} from '../../protocol/index.ts';
import {
  decodeContext,
  generate,
  modelsShown,
  openForModel,
  requireAllowed,
  requireService,
} from '../inference/dialect.ts';
import { RequestTracker } from '../inference/request-tracker.ts';
import { admit, GrpcExchange, type KserveDeps } from './grpc-exchange.ts';
import type { InferStatistics } from './models.ts';
import { modelNotFound, modelUnavailable, parseFailure, type Responses, StreamResponses } from './responses.ts';
import { TensorSink, TextStream, WholeText } from './sinks.ts';

/** One request, and the destination of its responses. */
interface InferRun {
  readonly deps: KserveDeps;
  readonly statistics: InferStatistics;
  readonly call: GrpcCall;
  readonly grant: Grant;
  readonly request: ModelInferRequest;
  readonly responses: Responses;
}

/**
 * Serves one request: a tensor model's as tensors, a completions model's as text. A failure before a worker was asked
 * ends the call. A request for an unknown model is not counted in metrics.
 */
export function infer(run: InferRun): void {
  const { deps, grant, request, responses } = run;
  try {
    requireService(deps);
    const model = deps.pipeline.requestable.find(request.modelName);
    requireAllowed({ grant }, request.modelName, model?.primaryName);
    const serves = (type: ModelType): boolean => model !== undefined && servesType(model, type);
    if (serves('TensorBased')) inferTensors(run);
    else if (serves('Completions')) inferText(run);
    else throw modelNotFound(request.modelName, modelsShown(deps, { grant }), deps.pipeline.models.refused?.());
  } catch (thrown) {
    responses.abort(statusOf(thrown));
  }
}

/** Runs `start` with the tracker of a request. What the dialect throws ends the request, and with it the call. */
function withTracker(
  run: InferRun,
  endpoint: 'completions' | 'tensor',
  start: (tracker: RequestTracker) => void,
): void {
  const { deps, call, grant, request, responses } = run;
  const tracker = new RequestTracker(deps, new GrpcExchange(deps, call, grant, request.id), endpoint);
  try {
    start(tracker);
  } catch (thrown) {
    const error = thrown instanceof GrpcStatus ? new ServeError('invalid_value', thrown.message) : toServeError(thrown);
    const status = error.code === 'service_unavailable' ? modelUnavailable(error.retryAfterMs) : parseFailure(thrown);
    const isAnswered = tracker.requestId !== undefined && error.code === 'client_closed_request';
    if (!isAnswered) responses.abort(status);
    tracker.fail(error, status.code);
  }
}

function inferText(run: InferRun): void {
  withTracker(run, 'completions', (tracker) => {
    const { deps, request, responses, statistics } = run;
    const { body, timeoutMs } = completionsOf(request);
    if (body.stream && !responses.isStream) {
      throw new GrpcStatus(STATUS.INVALID_ARGUMENT, 'Streaming is not supported for this endpoint');
    }
    const { meter, primaryName } = openForModel(tracker, request.modelName, body.stream);
    const generation = textRequest(request.modelName, body, tracker);
    tracker.identify(generation);
    if (request.id !== '') tracker.spans?.answersAs(request.id, false);
    const late = timeoutMs === undefined ? undefined : deps.clock.after(timeoutMs, () => tracker.breakOff(tooLate()));
    tracker.onOver = noteOf(statistics, primaryName, tracker, late);
    const parts = { responses, model: primaryName, id: request.id, isRaw: request.rawInputContents.length > 0 };
    const sink = generation.stream ? new TextStream(tracker, parts) : new WholeText(tracker, parts);
    generate(tracker, generation, sink, { meter });
  });
}

/**
 * Returns the generation request of a text. Workers that read bodies themselves get a request for a stream, whatever
 * the client wants.
 */
function textRequest(
  model: string,
  fields: Readonly<Record<string, unknown>> & { readonly prompt: string },
  tracker: RequestTracker,
): GenerationRequest {
  const { prompt } = fields;
  const value = { model, ...fields, prompt: prompt === '' ? NO_PROMPT : prompt };
  const body = parseCompletionsBody({ value });
  const { requests } = decodeCompletions(body, decodeContext(tracker));
  const generation = requests[0]!; // the body has one prompt
  const forWorker = { ...body, prompt, stream: true };
  const bodyChoicesMax = LIMITS.choices.max; // KServe has no field for their number
  return {
    ...generation,
    bodyChoicesMax,
    body: forWorker,
    ...(prompt === '' ? { prompt: { kind: 'raw', text: '' } } : {}),
  };
}

/** Stands for an empty prompt, which KServe allows and the check of a body does not. */
const NO_PROMPT = ' ';

function tooLate(): ServeError {
  return new ServeError('deadline_exceeded', 'Request timeout expired');
}

function inferTensors(run: InferRun): void {
  withTracker(run, 'tensor', (tracker) => {
    const { request, responses, statistics } = run;
    const record = tensorRequestOf(request);
    const { meter, primaryName } = openForModel(tracker, request.modelName, responses.isStream);
    const generation = assembleTextless(
      {},
      {
        model: request.modelName,
        endpoint: 'tensor',
        stream: responses.isStream,
        prompt: { kind: 'tensor', body: { ...record } },
      },
      decodeContext(tracker),
    );
    tracker.identify(generation);
    tracker.onOver = noteOf(statistics, primaryName, tracker);
    const sink = new TensorSink(tracker, { responses, id: request.id, isRaw: request.rawInputContents.length > 0 });
    generate(tracker, generation, sink, { meter });
  });
}

/**
 * Returns a function that notes how a request went, and ends its timer. A closure inside the function that serves the
 * request would hold all its variables. They would outlive their turn by a garbage collection or two, at a tenth of the
 * CPU of a request.
 */
function noteOf(statistics: InferStatistics, model: string, tracker: RequestTracker, timer?: Timer): () => void {
  return () => {
    timer?.cancel();
    const { hasSucceeded, elapsedMs: ms, deps } = tracker;
    statistics.noted(model, { hasSucceeded, ms, wallMs: deps.clock.wallMs() });
  };
}

/** Requests of a stream that may be served in one turn before other streams get theirs. */
const PER_TURN_MAX = 32;

/** Streams without a request in flight. The limit of streams per connection bounds them. */
export class IdleStreams {
  readonly #idle = new Set<() => void>();
  #isShuttingDown = false;

  /** @param end ends the stream */
  add(end: () => void): void {
    this.#idle.add(end);
    // Only after the messages that have come were read, because the client may have ended the stream.
    if (this.#isShuttingDown) queueMicrotask(() => this.#end(end));
  }

  delete(end: () => void): void {
    this.#idle.delete(end);
  }

  /** Ends these streams, and from here on every stream that becomes idle. */
  shutDown(): void {
    this.#isShuttingDown = true;
    for (const end of [...this.#idle]) this.#end(end);
  }

  #end(end: () => void): void {
    if (this.#idle.delete(end)) end();
  }
}

/**
 * `ModelStreamInfer`: serves requests one after the other, and reads the next when the last response to the one before
 * was written. Each request counts against its key's budgets.
 */
export async function serveStreamInfer(parts: StreamParts, call: GrpcCall): Promise<void> {
  await admit(parts.deps, call, 'inference');
  new StreamInfer(parts, call).next();
}

/** Dependencies of serving streams. */
interface StreamParts {
  readonly deps: KserveDeps;
  readonly statistics: InferStatistics;
  readonly idle: IdleStreams;
}

class StreamInfer {
  readonly #parts: StreamParts;
  readonly #call: GrpcCall;
  #inTurn = 0;

  constructor(parts: StreamParts, call: GrpcCall) {
    this.#parts = parts;
    this.#call = call;
    call.watch({ left: () => parts.idle.delete(this.#shutDown), late() {} }); // a late stream has left, too
  }

  /** Serves the next request, once the responses before it have room. */
  next(): void {
    onceRead(this.#call, () => this.#receive());
  }

  #receive(): void {
    if (++this.#inTurn > PER_TURN_MAX) {
      this.#inTurn = 0;
      void endOfTurn().then(() => this.next()); // never rejects
      return;
    }
    const { idle } = this.#parts;
    idle.add(this.#shutDown);
    this.#call.receive((message) => {
      idle.delete(this.#shutDown);
      if (message === undefined) this.#call.end();
      else this.#serve(message);
    });
  }

  /** Ends the stream with a status that asks the client to send its further requests elsewhere. */
  readonly #shutDown = (): void => this.#call.end(new GrpcStatus(STATUS.UNAVAILABLE, 'Service is shutting down'));

  #serve(message: Buffer): void {
    let request: ModelInferRequest;
    try {
      request = decodeModelInferRequest(message);
    } catch (thrown) {
      const errorMessage = statusOf(thrown).message;
      this.#call.write(encodeModelStreamInferResponse({ errorMessage, inferResponse: undefined }));
      this.next();
      return;
    }
    void this.#infer(request).catch((thrown: unknown) => this.#call.end(statusOf(thrown)));
  }

  async #infer(request: ModelInferRequest): Promise<void> {
    const { deps, statistics } = this.#parts;
    const call = this.#call;
    const grant = await admit(deps, call, 'generate');
    const held = deps.lifecycle.hold(call);
    if (held !== undefined) await held;
    if (call.isOver) return; // the client has left meanwhile
    const responses = new StreamResponses(call, request, () => this.next());
    infer({ deps, statistics, call, grant, request, responses });
  }
}
