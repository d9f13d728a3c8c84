import type { Grant } from '../../access/index.ts';
import type { Timer } from '../../clock/index.ts';
import { LIMITS, ServeError, toServeError } from '../../errors/index.ts';
import { type GrpcCall, GrpcStatus, STATUS, statusOf } from '../../grpc/index.ts';
import type { GenerationRequest } from '../../protocol/generation/index.ts';
import { completionsOf, type ModelInferRequest, tensorRequestOf } from '../../protocol/kserve/index.ts';
import { assembleTextless, decodeCompletions, parseCompletionsBody } from '../../protocol/openai/index.ts';
import { decodeContext, generate, InferenceBooks, openForModel, requireService } from '../inference/index.ts';
import { requireModelAllowed } from './admit.ts';
import { TextFold, TextStream } from './completions-sinks.ts';
import type { KserveDeps } from './deps.ts';
import { modelNotFound, modelUnavailable, parseFailure } from './failures.ts';
import { GrpcExchange } from './grpc-exchange.ts';
import type { Responses } from './responses.ts';
import type { InferStatistics } from './statistics.ts';
import { TensorSink } from './tensor-sink.ts';

/** One request, and where its responses go. */
export interface InferRun {
  readonly deps: KserveDeps;
  readonly statistics: InferStatistics;
  readonly call: GrpcCall;
  readonly grant: Grant;
  readonly request: ModelInferRequest;
  readonly responses: Responses;
}

/**
 * Serves one request: a tensor model's as tensors, a completions model's as text. What is wrong before a worker was asked ends
 * the call. A request for a model that nobody knows leaves no trace in metrics.
 */
export function infer(run: InferRun): void {
  const { deps, grant, request, responses } = run;
  try {
    requireService(deps);
    requireModelAllowed(deps, grant, request.modelName);
    const types = deps.pipeline.requestable.find(request.modelName)?.card.model_type ?? [];
    if (types.includes('TensorBased')) inferTensors(run);
    else if (types.includes('Completions')) inferText(run);
    else throw modelNotFound(request.modelName);
  } catch (thrown) {
    responses.abort(statusOf(thrown));
  }
}

/** Books of the request; what its dialect throws ends it, and the call. */
function withBooks(run: InferRun, endpoint: 'completions' | 'tensor', start: (books: InferenceBooks) => void): void {
  const { deps, call, grant, request, responses } = run;
  const books = new InferenceBooks(deps, new GrpcExchange(deps, call, grant, request.id), endpoint);
  try {
    start(books);
  } catch (thrown) {
    const error = thrown instanceof GrpcStatus ? new ServeError('invalid_value', thrown.message) : toServeError(thrown);
    const status = error.code === 'service_unavailable' ? modelUnavailable(error.retryAfterMs) : parseFailure(thrown);
    const isTold = books.requestId !== undefined && error.code === 'client_closed_request';
    if (!isTold) responses.abort(status);
    books.fail(error, status.code);
  }
}

function inferText(run: InferRun): void {
  withBooks(run, 'completions', (books) => {
    const { deps, request, responses, statistics } = run;
    const { body, timeoutMs } = completionsOf(request);
    if (body.stream && !responses.isStream) {
      throw new GrpcStatus(STATUS.INVALID_ARGUMENT, 'Streaming is not supported for this endpoint');
    }
    const { meter, primaryName } = openForModel(books, request.modelName, body.stream);
    const generation = textRequest(request.modelName, body, books);
    books.identify(generation);
    let late: Timer | undefined;
    const parts = {
      responses,
      model: primaryName,
      id: request.id,
      isRaw: request.rawInputContents.length > 0,
      onOver: over(statistics, primaryName, books, () => late?.cancel()),
    };
    const sink = generation.stream ? new TextStream(books, parts) : new TextFold(books, parts);
    generate(books, generation, sink, { meter });
    if (timeoutMs !== undefined && !sink.isOver) late = deps.clock.after(timeoutMs, () => books.breakOff(tooLate()));
  });
}

/** Workers that read bodies themselves are asked for a stream, whatever the client wants. */
function textRequest(
  model: string,
  fields: Readonly<Record<string, unknown>> & { readonly prompt: string },
  books: InferenceBooks,
): GenerationRequest {
  const { prompt } = fields;
  const value = { model, ...fields, prompt: prompt === '' ? NO_PROMPT : prompt };
  const body = parseCompletionsBody({ value, isRepaired: false, fractionalKeys: [] });
  const { requests } = decodeCompletions(body, decodeContext(books));
  const generation = requests[0]!; // of one prompt
  const forWorker = { ...body, prompt, stream: true };
  const bodyChoicesMax = LIMITS.choices.max; // KServe has no field that would ask for a number of them
  return {
    ...generation,
    bodyChoicesMax,
    body: forWorker,
    ...(prompt === '' ? { prompt: { kind: 'raw', text: '' } } : {}),
  };
}

/** Stands for an empty prompt, which KServe allows, while a body is checked that does not. */
const NO_PROMPT = ' ';

function tooLate(): ServeError {
  return new ServeError('deadline_exceeded', 'Request timeout expired');
}

function inferTensors(run: InferRun): void {
  withBooks(run, 'tensor', (books) => {
    const { request, responses, statistics } = run;
    const record = tensorRequestOf(request);
    const { meter, primaryName } = openForModel(books, request.modelName, responses.isStream);
    const generation = assembleTextless(
      {},
      {
        model: request.modelName,
        endpoint: 'tensor',
        stream: responses.isStream,
        prompt: { kind: 'tensor', body: { ...record } },
      },
      decodeContext(books),
    );
    books.identify(generation);
    const sink = new TensorSink(books, {
      responses,
      id: request.id,
      isRaw: request.rawInputContents.length > 0,
      onOver: over(statistics, primaryName, books),
    });
    generate(books, generation, sink, { meter });
  });
}

/** Notes how a request went, once. */
function over(statistics: InferStatistics, model: string, books: InferenceBooks, then?: () => void): () => void {
  let isNoted = false;
  return () => {
    if (isNoted) return;
    isNoted = true;
    statistics.noted(model, {
      hasSucceeded: books.hasSucceeded,
      ms: books.elapsedMs,
      wallMs: books.deps.clock.wallMs(),
    });
    then?.();
  };
}
