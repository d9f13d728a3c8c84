import { endOfTurn } from '../../../concurrency/index.ts';
import { openAiErrorBody, type ServeError } from '../../../errors/index.ts';
import { isLongJson, jsonPieces, objectPieces } from '../../../protocol/index.ts';
import type { RequestTracker } from '../../inference/request-tracker.ts';
import type { HttpExchange } from '../exchange/exchange.ts';

type Headers = Readonly<Record<string, string>>;

/** Memory of a body from which it is written in pieces. Below it, writing takes at most about 2 ms. */
const LARGE_BYTES = 1024 * 1024;
const PIECE_CHARS = 32 * 1024;
/** Characters of a text from which it is written in pieces. */
const LARGE_CHARS = 256 * 1024;

const MS_PER_SECOND = 1000;
/** Header of answers that come in pieces. nginx would otherwise collect 4 KiB before it sends any. */
export const UNBUFFERED = { 'x-accel-buffering': 'no' };
/** Headers of a stream of events. */
export const EVENT_STREAM = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache', ...UNBUFFERED };
/** Header that keeps the official clients from retrying a request that no worker here can serve. */
const NO_RETRY = { 'x-should-retry': 'false' };

/** Writes a whole response: head and body leave in one write. */
export function sendText(
  exchange: HttpExchange,
  status: number,
  contentType: string,
  text: string,
  headers?: Headers,
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

export function sendJson(exchange: HttpExchange, status: number, body: unknown, headers?: Headers): void {
  sendText(exchange, status, 'application/json', JSON.stringify(body), headers);
}

/** Returns the HTTP status of a failure. The error's code decides, except that the status of overload is a setting. */
export function statusOf(error: ServeError, overloadStatus: number): number {
  return error.code === 'server_overloaded' ? overloadStatus : error.status;
}

/** Sends a failure in the OpenAI envelope. Returns its status. */
export function sendError(
  exchange: HttpExchange,
  error: ServeError,
  overloadStatus: number,
  headers?: Headers,
): number {
  const status = statusOf(error, overloadStatus);
  return sendFailure(exchange, error, { status, body: openAiErrorBody(error), headers });
}

/** A failure in the form of a dialect. */
export interface FailureResponse {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Headers | undefined;
}

/**
 * Sends a failure, with the time after which to try again if that may help. A response that has begun is cut off
 * instead, unless its dialect has ended it already with an error of its own.
 * @returns the status
 */
export function sendFailure(exchange: HttpExchange, error: ServeError, response: FailureResponse): number {
  const { status } = response;
  exchange.failed(error);
  if (!exchange.sink.isNew) {
    exchange.sink.breakOff(error);
    return status;
  }
  const { retryAfterMs } = error;
  sendJson(exchange, status, response.body, {
    ...response.headers,
    ...(error.code === 'not_implemented' ? NO_RETRY : {}),
    ...(retryAfterMs === undefined ? {} : { 'retry-after': String(Math.ceil(retryAfterMs / MS_PER_SECOND)) }),
  });
  return status;
}

/**
 * Sends an object with status 200: at once, or in pieces with a turn of the event loop for each when it is large.
 * @param more members behind those of `object`, each as JSON text with a comma before it
 * @returns a promise that resolves when all is written; undefined if all is written already
 */
export function sendObject(
  { exchange, room }: RequestTracker<HttpExchange>,
  object: object,
  more: Iterable<string> = [],
  headers?: Headers,
): Promise<void> | undefined {
  if (room.usedBytes >= LARGE_BYTES) return sendPieces(exchange, objectPieces(object, more), headers);
  return sendJsonText(exchange, objectText(object, more), headers);
}

/** Returns the JSON text of `object` with the members of `more` at its end. */
export function objectText(object: object, more: Iterable<string>): string {
  const text = JSON.stringify(object);
  const members = [...more].join('');
  return members === '' ? text : `${text.slice(0, -1)}${members}}`;
}

/** Does what `sendObject` does, for an object whose JSON text comes in parts. */
export function sendParts(
  { exchange, room }: RequestTracker<HttpExchange>,
  parts: Iterable<string>,
): Promise<void> | undefined {
  if (room.usedBytes >= LARGE_BYTES) return sendPieces(exchange, parts);
  return sendJsonText(exchange, [...parts].join(''));
}

/** Does what `sendObject` does, for an object of unknown size. */
export function sendStored(exchange: HttpExchange, object: object): Promise<void> | undefined {
  if (isLongJson(object, LARGE_CHARS)) return sendPieces(exchange, jsonPieces(object));
  return sendJsonText(exchange, JSON.stringify(object));
}

function sendJsonText(exchange: HttpExchange, text: string, headers?: Headers): undefined {
  sendText(exchange, 200, 'application/json', text, headers);
}

/**
 * Makes all pieces before the first one leaves: only then is the length known, and a failure until then still has its
 * status. Waits for a slow reader, so that the body counts against the room for as long as it is in memory.
 */
async function sendPieces(exchange: HttpExchange, texts: Iterable<string>, headers?: Headers): Promise<void> {
  const { sink } = exchange;
  const pieces: Buffer[] = [];
  let text = '';
  for (const part of texts) {
    text += part;
    if (text.length < PIECE_CHARS) continue;
    pieces.push(Buffer.from(text));
    text = '';
    await endOfTurn();
    if (sink.closed.aborted) return;
  }
  pieces.push(Buffer.from(text));
  const bytes = pieces.reduce((sum, { length }) => sum + length, 0);
  exchange.head(200, { 'content-type': 'application/json', 'content-length': String(bytes), ...headers });
  for (const piece of pieces) {
    sink.write(piece);
    if (sink.isBlocked()) await new Promise<void>((resolve) => sink.onUnblocked(resolve));
    else await endOfTurn();
    if (sink.closed.aborted) return;
  }
  sink.end();
}
