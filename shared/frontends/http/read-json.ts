import { endOfTurn } from '../../concurrency/index.ts';
import { ServeError } from '../../errors/index.ts';
import { type JsonBody, parseJsonBody, parseLargeJsonBody } from '../../protocol/json/index.ts';
import { BodyIntake } from './bodies/body-intake.ts';
import type { HttpAppDeps } from './deps.ts';
import type { HttpExchange } from './hosts/exchange.ts';

/** Reads a body and hands it to `use`; its bytes count against the room for bodies until that has ended. */
export async function withBody<T>(
  exchange: HttpExchange,
  { settings, bodies }: Pick<HttpAppDeps, 'settings' | 'bodies'>,
  use: (bytes: Uint8Array) => T | Promise<T>,
): Promise<T> {
  const intake = new BodyIntake(settings.bodyLimitBytes, bodies, exchange.header('content-encoding'));
  try {
    await exchange.readBody(intake);
    return await use(await intake.finish());
  } finally {
    intake.release();
  }
}

/**
 * Checks the content type, reads the body and parses it, in this order.
 * @throws ServeError `unsupported_media_type`, `request_too_large`, `server_overloaded`, `invalid_json`, `invalid_value`.
 */
export async function readJson(
  exchange: HttpExchange,
  deps: Pick<HttpAppDeps, 'settings' | 'bodies'>,
): Promise<JsonBody> {
  if (!isJsonType(exchange.header('content-type'))) {
    throw new ServeError('unsupported_media_type', 'Expected request with Content-Type application/json');
  }
  return withBody(exchange, deps, parse);
}

async function parse(bytes: Uint8Array): Promise<JsonBody> {
  await endOfTurn();
  if (bytes.length < LARGE_BYTES) return parseJsonBody(bytes);
  const json = await parseLargeJsonBody(bytes, endOfTurn);
  await endOfTurn(); // what the caller does with it begins in a turn of its own
  return json;
}

/** Bodies from here on are read in several turns; less is read by `JSON.parse` in 5 ms, a prompt of 100,000 ids for one. */
const LARGE_BYTES = 768 * 1024;

const JSON_TYPE = /^\s*application\/(?:json|[^\s;/]+\+json)\s*(?:;|$)/i;

function isJsonType(contentType: string | undefined): boolean {
  return contentType === 'application/json' || (contentType !== undefined && JSON_TYPE.test(contentType));
}
