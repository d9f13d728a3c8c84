import { ServeError } from '../../errors/index.ts';
import type { BodyIntake } from '../http/exchange/body-intake.ts';
import type { FrameSink, HostExchange } from '../http/exchange/exchange.ts';
import type { LambdaRequest } from './lambda-events.ts';

/** Largest request that Lambda passes on, including the event's envelope. */
const LAMBDA_BODY_BYTES_MAX = 6 * 1024 * 1024;

/** Returns the exchange of one event and its answer. @param deadline aborts shortly before the function's limit */
export function exchangeOf(request: LambdaRequest, sink: FrameSink, deadline: AbortSignal): HostExchange {
  const { method, path, query, headerLines, headers } = request;
  return {
    method,
    path,
    query,
    headerLines,
    sink,
    deadline,
    headerNames: () => [...headers.keys()],
    header: (name) => headers.get(name),
    readBody: (intake) => readBody(request, intake),
  };
}

/** Characters that base64 does not contain. White space is allowed, because some clients encode in lines. */
const NOT_BASE64 = /[^A-Za-z0-9+/=_\s-]/;

async function readBody({ body, isBase64 }: LambdaRequest, intake: BodyIntake): Promise<void> {
  const encoding = isBase64 ? 'base64' : 'utf8';
  // The size is known before anything is decoded.
  const sizeBytes = Buffer.byteLength(body, encoding);
  if (sizeBytes > LAMBDA_BODY_BYTES_MAX) {
    const limitMb = LAMBDA_BODY_BYTES_MAX / 1024 / 1024;
    throw new ServeError('request_too_large', `Request body exceeds the limit of ${limitMb} MB`);
  }
  if (isBase64 && NOT_BASE64.test(body)) {
    throw new ServeError('invalid_json', 'Failed to read request body: it is not base64, as the event says');
  }
  intake.expect(sizeBytes);
  if (sizeBytes > 0) intake.add(Buffer.from(body, encoding));
}
