import { openAiErrorBody, openAiStreamError, ServeError } from '../../errors/index.ts';
import type { LambdaRequest } from './lambda-events.ts';
import type { LambdaSink } from './lambda-sink.ts';

/** The request for the app's router. Its body stays in the exchange: it is read once, with the route's own limit. */
export function toFetchRequest(request: LambdaRequest): Request {
  const query = request.query === '' ? '' : `?${request.query}`;
  try {
    return new Request(`http://function${request.path}${query}`, {
      method: request.method,
      headers: [...request.headers],
    });
  } catch (cause) {
    throw new ServeError('invalid_value', 'The method, path or headers of the request are malformed', { cause });
  }
}

/** Writes an answer that the app made as a `Response`: errors of the router, metrics, health. */
export async function writeResponse(sink: LambdaSink, response: Response): Promise<void> {
  const headers = Object.fromEntries([...response.headers].filter(([name]) => name !== 'set-cookie'));
  sink.head(response.status, headers, response.headers.getSetCookie());
  const writable = new WritableStream<Uint8Array>({
    write(chunk) {
      sink.write(chunk);
      return sink.isBlocked() ? new Promise((resolve) => sink.onUnblocked(resolve)) : undefined;
    },
  });
  await response.body?.pipeTo(writable, { signal: sink.closed });
  sink.end();
}

/** Ends an answer that the app left unfinished. The dialect is the app's own business, so this speaks the most common one. */
export function endWithError(sink: LambdaSink, error: ServeError, requestId: string): void {
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
