import { type Clock, type Random, systemClock, systemRandom, type Timer } from '../../clock/index.ts';
import { untilAborted } from '../../concurrency/index.ts';
import { openAiErrorBody, openAiStreamError, ServeError, toServeError } from '../../errors/index.ts';
import { requestIdOf } from '../inference/deps.ts';
import { fromLambdaEvent, type LambdaRequest, shardKeyOf } from './lambda-events.ts';
import { exchangeOf } from './lambda-exchange.ts';
import { type LambdaContext, LambdaSink, type OpenHttpStream, type StreamingHandler } from './lambda-sink.ts';
import { type FunctionApp, RunningApp } from './running-app.ts';

/** The gateway ends an answer that is silent for 300 s, and the service any after 900 s: who waits for a worker is told before. */
export const LAMBDA_HOLD = { streamMsMax: 870_000, unaryMsMax: 280_000 } as const;

export interface LambdaHandlerOptions {
  /** `awslambda.HttpResponseStream.from`. */
  readonly openHttpStream: OpenHttpStream;
  /** Work ends this long before the function's limit. @default 10_000 */
  readonly deadlineMarginMs?: number;
  /** Told of each request that the app failed to answer. */
  readonly onFailure: (error: ServeError, requestId: string) => void;
  /** Told why another app could not start in the place of an outdated one, which serves on. @default nobody is told */
  readonly onServedOn?: (cause: unknown) => void;
  /** @default systemClock */
  readonly clock?: Clock;
  /** Names requests that could not be begun. @default systemRandom */
  readonly random?: Random;
}

/** A streaming handler, and when its app has been started. */
export interface LambdaFunction {
  readonly handler: StreamingHandler;
  /** Resolves when the first start has ended, well or not; never rejects. */
  readonly started: Promise<void>;
}

/** With this part of the margin left, an app that has not ended its answer by itself is given up. */
const GIVE_UP_SHARE = 0.8;

/**
 * Serves an app as a streaming function.
 *
 * `startApp` is called at once, while the environment starts, and again by the next request when it failed: a table that was
 * away for a moment must not cost the environment.
 *
 * | Time left | What happens |
 * |---|---|
 * | margin | `exchange.deadline` aborts: the app cancels its work and ends the answer with its dialect's error |
 * | 0.8 x margin | an app that has not ended is given up: `sink.closed` aborts, the stream ends with an error |
 */
export function createLambdaHandler(
  startApp: () => Promise<FunctionApp>,
  options: LambdaHandlerOptions,
): LambdaFunction {
  const apps = new RunningApp(startApp, options.clock ?? systemClock, (cause) => options.onServedOn?.(cause));
  const started = apps.get().then(
    () => undefined,
    () => undefined, // told by the request that finds it
  );
  const { random = systemRandom } = options;
  const handler: StreamingHandler = async (event, stream, context) => {
    // Sockets to workers stay open between requests; without this the environment would never ask for the next one.
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
        // Whoever aborted `closed` has ended the answer as well.
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

/** The request of an event, or why it is none, which its caller is told. */
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
      if (!sink.isNew && !sink.isOpen) return; // ended; only the reader is slow
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

/** Ends an answer that the app left unfinished. The dialect is the app's own business, so this speaks the most common one. */
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
    sink.breakOff(error); // a body that simply ended would look whole
  }
}
