import { endOfTurn } from '../../concurrency/index.ts';
import { ServeError } from '../../errors/index.ts';
import { type JsonBody, parseJsonBody, parseLargeJsonBody } from '../../protocol/openai/index.ts';
import type { HttpExchange } from './hosts/exchange.ts';

const MEBIBYTE = 1024 * 1024;

export function bodyTooLarge(limitBytes: number): ServeError {
  const limitMb = limitBytes / MEBIBYTE;
  return new ServeError(
    'request_too_large',
    `Request body exceeds the limit of ${limitMb} MB set by DYN_HTTP_BODY_LIMIT_MB`,
  );
}

export function bodyUnreadable(cause: unknown): ServeError {
  return new ServeError('invalid_json', 'Failed to read request body', { cause });
}

/**
 * Checks the content type, reads the body and parses it, in the order of http-api.md, section 2.1.
 * @throws ServeError `unsupported_media_type`, `request_too_large`, `invalid_json`, `invalid_value`.
 */
export async function readJson(exchange: HttpExchange, limitBytes: number): Promise<JsonBody> {
  if (!isJsonType(exchange.header('content-type'))) {
    throw new ServeError('unsupported_media_type', 'Expected request with Content-Type application/json');
  }
  const bytes = await exchange.readBody(limitBytes);
  await endOfTurn();
  if (bytes.length < LARGE_BYTES) return parseJsonBody(bytes);
  const json = await parseLargeJsonBody(bytes, endOfTurn);
  await endOfTurn(); // what the caller does with it begins in a turn of its own
  return json;
}

/** Bodies from here on are read in several turns: together the steps would hold up streams. */
const LARGE_BYTES = 256 * 1024;

const JSON_TYPE = /^\s*application\/(?:json|[^\s;/]+\+json)\s*(?:;|$)/i;

function isJsonType(contentType: string | undefined): boolean {
  return contentType === 'application/json' || (contentType !== undefined && JSON_TYPE.test(contentType));
}
