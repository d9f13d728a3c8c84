import { openAiErrorBody, type ServeError } from '../../../errors/index.ts';
import type { HttpExchange } from '../hosts/exchange.ts';

const MS_PER_SECOND = 1000;
const OVERLOAD_RETRY_MS = 1000;

/** Writes a whole response: head and body leave in one write. */
export function answerText(
  exchange: HttpExchange,
  status: number,
  contentType: string,
  text: string,
  headers?: Readonly<Record<string, string>>,
): void {
  const { sink } = exchange;
  exchange.head(status, {
    'content-type': contentType,
    'content-length': String(Buffer.byteLength(text)),
    ...headers,
  });
  if (text !== '') sink.write(text);
  sink.end();
}

export function answerJson(
  exchange: HttpExchange,
  status: number,
  body: unknown,
  headers?: Readonly<Record<string, string>>,
): void {
  answerText(exchange, status, 'application/json', JSON.stringify(body), headers);
}

/** HTTP status of a failure: the error's code decides, and overload has a configurable number. */
export function statusOf(error: ServeError, overloadStatus: number): number {
  return error.code === 'server_overloaded' ? overloadStatus : error.status;
}

/** Answers a failure in the OpenAI envelope. */
export function answerError(
  exchange: HttpExchange,
  error: ServeError,
  overloadStatus: number,
  headers?: Readonly<Record<string, string>>,
): void {
  answerFailure(exchange, error, { status: statusOf(error, overloadStatus), body: openAiErrorBody(error), headers });
}

/** How a dialect words a failure. */
export interface FailureAnswer {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/**
 * Answers a failure, and says when to try again where time may mend it. An answer that has begun is cut off
 * instead: who knows its dialect ends it in its own words before coming here, and then nothing is left to do.
 */
export function answerFailure(exchange: HttpExchange, error: ServeError, answer: FailureAnswer): void {
  exchange.failed(error);
  if (!exchange.sink.isNew) {
    exchange.sink.breakOff(error);
    return;
  }
  const retryAfterMs = error.retryAfterMs ?? (error.code === 'server_overloaded' ? OVERLOAD_RETRY_MS : undefined);
  answerJson(exchange, answer.status, answer.body, {
    ...answer.headers,
    ...(retryAfterMs === undefined ? {} : { 'retry-after': String(Math.ceil(retryAfterMs / MS_PER_SECOND)) }),
  });
}
