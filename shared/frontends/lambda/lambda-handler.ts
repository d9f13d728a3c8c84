import { type Clock, type Random, systemClock, systemRandom, type Timer } from '../../clock/index.ts';
import { untilAborted } from '../../concurrency/index.ts';
import { openAiErrorBody, openAiStreamError, ServeError, toServeError } from '../../errors/index.ts';
import { requestIdOf } from '../inference/deps.ts';
import { fromLambdaEvent, type LambdaRequest, shardKeyOf } from './lambda-events.ts';
import { exchangeOf } from './lambda-exchange.ts';
import { type LambdaContext, LambdaSink, type OpenHttpStream, type StreamingHandler } from './lambda-sink.ts';
import { type FunctionApp, RunningApp } from './running-app.ts';

/**
 * How long a request may wait for a worker. The gateway ends an answer that is silent for 300 s, and the service ends
 * any answer after 900 s; the client gets its error before that.
 */
export const LAMBDA_HOLD = { streamMsMax: 870_000, unaryMsMax: 280_000 } as const;

export interface LambdaHandlerOptions {
  /** The runtime's `awslambda.HttpResponseStream.from`. */
  readonly openHttpStream: OpenHttpStream;
  /** How long before the function's limit work ends. @default 10_000 */
  readonly deadlineMarginMs?: number;
  /** Called for each request that the app failed to answer. */
  readonly onFailure: (error: ServeError, requestId: string) => void;
  /**
   * Called with the reason if the replacement of an outdated app could not start; the old app serves on. @default
   * ignores it
   */
  readonly onServedOn?: (cause: unknown) => void;
  /** @default systemClock */
  readonly clock?: Clock;
  /** Source of the ids of requests that could not begin. @default systemRandom */
  readonly random?: Random;
}

/** A streaming handler, and a promise for the start of its app. */
export interface LambdaFunction {
  readonly handler: StreamingHandler;
  /** Resolves when the first start has ended, even if it failed; never rejects. */
  readonly started: Promise<void>;
}

/** Share of the margin that is left when the handler gives up an app that has not ended its answer. */
const GIVE_UP_SHARE = 0.8;

/**
 * Serves an app as a streaming function.
 *
 * The handler calls `startApp` at once, while the environment starts. If that failed, the next request calls it again:
 * a table that was unavailable for a moment must not cost the environment.
 *
 * | Time left | What happens |
 * |---|---|
 * | margin | `exchange.deadline` aborts: the app cancels its work and ends the answer with its dialect's error |
 * | 0.8 x margin | the handler gives up an app that has not ended: `sink.closed` aborts, the stream ends with an error |
 */
export function createLambdaHandler(
  startApp: () => Promise<FunctionApp>,
  options: LambdaHandlerOptions,
): LambdaFunction {
  const apps = new RunningApp(startApp, options.clock ?? systemClock, (cause) => options.onServedOn?.(cause));
  const started = apps.get().then(
    () => undefined,
    () => undefined, // the request that meets the failure reports it
  );
  const { random = systemRandom } = options;
  const handler: StreamingHandler = async (event, stream, context) => {
    // Sockets to workers stay open between requests; otherwise the environment would never ask for the next request.
    context.callbackWaitsForEmptyEventLoop = false;
    const read = requestOf(event);
    const request = read instanceof ServeError ? undefined : read;
    const sink = new LambdaSink(stream, options.openHttpStream, request?.method ?? 'POST');
    const fail = (error: ServeError): void => {
      options.onFailure(error, context.awsRequestId);
      endWithError(sink, error, requestIdOf(request?.headers.get('x-request-id'), random));
    };
    const limits = armLimits(sink, context, options, fail);
    let running: FunctionApp | undefined;
    const startedApp = async (): Promise<FunctionApp> => {
      running = await apps.get();
      return running;
    };
    try {
      await answer(read, sink, limits.deadline, startedApp).catch((thrown: unknown) => {
        // The code that aborted `closed` has also ended the answer.
        if (thrown !== sink.closed.reason) fail(toServeError(thrown));
      });
      await sink.finished;
      await running?.afterRequest?.();
    } finally {
      limits.cancel();
    }
  };
  return { handler, started };
}

/** Returns the request of an event, or the error for its caller if the event is not a request. */
function requestOf(event: unknown): LambdaRequest | ServeError {
  try {
    return fromLambdaEvent(event);
  } catch (thrown) {
    return toServeError(thrown);
  }
}

async function answer(
  request: LambdaRequest | ServeError,
  sink: LambdaSink,
  deadline: AbortSignal,
  startedApp: () => Promise<FunctionApp>,
): Promise<void> {
  if (request instanceof ServeError) throw request;
  const exchange = exchangeOf(request, sink, deadline);
  const app = await untilAborted(startedApp(), deadline);
  if (app.beforeRequest !== undefined) {
    await untilAborted(app.beforeRequest(deadline, shardKeyOf(request)), deadline);
  }
  app.serve(exchange);
}

interface Limits {
  readonly deadline: AbortSignal;
  cancel(): void;
}

function armLimits(
  sink: LambdaSink,
  context: LambdaContext,
  options: LambdaHandlerOptions,
  fail: (error: ServeError) => void,
): Limits {
  const clock = options.clock ?? systemClock;
  const marginMs = options.deadlineMarginMs ?? 10_000;
  const remainingMs = context.getRemainingTimeInMillis();
  const deadline = new AbortController();
  const error = new ServeError('deadline_exceeded', 'The request took longer than this endpoint allows');
  const atTimeLeft = (leftMs: number, callback: () => void): Timer =>
    clock.after(Math.max(0, remainingMs - leftMs), callback);
  const timers = [
    atTimeLeft(marginMs, () => deadline.abort(error)),
    atTimeLeft(marginMs * GIVE_UP_SHARE, () => {
      if (!sink.isNew && !sink.isOpen) return; // the app has ended the answer; only the reader is slow
      fail(error);
      sink.cancel(error);
    }),
  ];
  return {
    deadline: deadline.signal,
    cancel: () => {
      for (const timer of timers) timer.cancel();
    },
  };
}

/**
 * Ends an answer that the app left unfinished. Only the app knows the dialect, so the error has OpenAI's form, the most
 * common one.
 */
function endWithError(sink: LambdaSink, error: ServeError, requestId: string): void {
  if (sink.isNew) {
    const retryAfter =
      error.retryAfterMs === undefined ? {} : { 'retry-after': String(Math.ceil(error.retryAfterMs / 1000)) };
    sink.head(error.status, { 'content-type': 'application/json', 'x-request-id': requestId, ...retryAfter });
    sink.write(JSON.stringify(openAiErrorBody(error)));
    sink.end();
  } else if (sink.isOpen && sink.contentType?.startsWith('text/event-stream')) {
    sink.write(openAiStreamError(error));
    sink.end();
  } else if (sink.isOpen) {
    sink.breakOff(error); // a body that only ended would look complete
  }
}
