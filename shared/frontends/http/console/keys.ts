import * as z from 'zod';
import {
  isInForce,
  isKeyId,
  issueKey,
  type KeyLimits,
  type KeyRecord,
  type KeyStore,
  KeyStoreError,
  LIMIT_MAX,
  LIST_MAX,
  limitKey,
  revokeKey,
  rotateKey,
  SCOPES,
  TEXT_MAX,
} from '../../../access/index.ts';
import type { ConsoleKey } from '../../../console/index.ts';
import { ServeError } from '../../../errors/index.ts';
import { atMost, invalidValue, requireShape } from '../../../protocol/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../exchange/exchange.ts';
import { type BodyRoute, CONSOLE_PATH, decodePath, type RouteBody, shownId } from '../route.ts';
import { readJson } from '../serve-inference.ts';
import { sendJson } from '../sinks/send.ts';

const MS_PER_DAY = 86_400_000;
const MS_PER_HOUR = 3_600_000;
const OVERLAP_HOURS = 24;
/** Longest times, a hundred years: a longer one means for ever. */
const DAYS_MAX = 36_500;
const NOT_KEPT = { 'cache-control': 'no-store' };

const limit = z.int().min(1).max(LIMIT_MAX).optional();

const newKeySchema = z.strictObject({
  name: z
    .string()
    .max(TEXT_MAX)
    .regex(/^\P{C}+$/u),
  owner: z
    .string()
    .max(TEXT_MAX)
    .regex(/^[\x21-\x7e]+$/)
    .optional(),
  scopes: atMost(z.array(z.enum(SCOPES)), 'names', { minItems: 1 }).optional(),
  models: atMost(z.array(z.string().min(1).max(TEXT_MAX)), 'names', { minItems: 1 }).optional(),
  requests_per_minute: limit,
  tokens_per_minute: limit,
  tokens_per_day: limit,
  expires_days: z.int().min(1).max(DAYS_MAX).optional(),
});

const rotationSchema = z.strictObject({
  overlap_hours: z
    .int()
    .min(0)
    .max(DAYS_MAX * 24)
    .optional(),
});

const newLimit = z.int().min(1).max(LIMIT_MAX).nullable().optional();

const limitsSchema = z.strictObject({
  requests_per_minute: newLimit,
  tokens_per_minute: newLimit,
  tokens_per_day: newLimit,
});

/** `GET /console/api/keys` lists the API keys, without their secrets. `POST` creates one. */
export const keys: BodyRoute = {
  serve: async (deps, exchange) => {
    const { clock } = deps;
    if (exchange.method !== 'POST') {
      const records = await withStore(deps, (store) => store.list(exchange.sink.closed));
      return sendJson(exchange, 200, { keys: records.map((record) => shownKey(record, deps)) }, NOT_KEPT);
    }
    const body = requireShape(newKeySchema, await readJson(exchange, deps));
    const { name, owner, scopes = ['inference'], models, expires_days: days } = body;
    requireLength('scopes', scopes, SCOPES.length);
    requireLength('models', models, LIST_MAX);
    const limits = {
      ...(body.requests_per_minute === undefined ? {} : { requestsPerMinute: body.requests_per_minute }),
      ...(body.tokens_per_minute === undefined ? {} : { tokensPerMinute: body.tokens_per_minute }),
      ...(body.tokens_per_day === undefined ? {} : { tokensPerDay: body.tokens_per_day }),
    };
    const lifeMs = days === undefined ? undefined : days * MS_PER_DAY;
    const wanted = { name, owner, scopes, models, limits, lifeMs };
    const { text, record } = await withStore(deps, (store) => issueKey(store, clock, wanted));
    deps.logger.info('API key is created', { key_id: record.id, key_name: record.name });
    sendJson(exchange, 200, { text, key: shownKey(record, deps) }, NOT_KEPT);
  },
  body: { name: 'ConsoleNewKey', schema: newKeySchema, example: () => ({ name: 'a team' }) },
};

/**
 * `POST /console/api/keys/{id}` gives a key another secret. `PATCH` changes its limits. `DELETE` ends it; it stays in
 * the list.
 */
export const key: BodyRoute = {
  serve: async (deps, exchange) => {
    const id = decodePath(exchange.path.slice(`${CONSOLE_PATH}/api/keys/`.length));
    if (!isKeyId(id)) throw unknownKey(id);
    if (exchange.method === 'DELETE') return revoke(deps, exchange, id);
    return exchange.method === 'PATCH' ? changeLimits(deps, exchange, id) : rotate(deps, exchange, id);
  },
  body: { name: 'ConsoleRotation', schema: rotationSchema, example: () => ({ overlap_hours: OVERLAP_HOURS }) },
};

/** Body of `PATCH /console/api/keys/{id}`. */
export const limitsBody: RouteBody = {
  name: 'ConsoleKeyLimits',
  schema: limitsSchema,
  example: () => ({ tokens_per_day: 1_000_000, tokens_per_minute: null }),
};

async function rotate(deps: HttpAppDeps, exchange: HttpExchange, id: string): Promise<void> {
  const { overlap_hours: hours = OVERLAP_HOURS } = requireShape(rotationSchema, await readJson(exchange, deps));
  const issued = await withStore(deps, (store) => rotateKey(store, deps.clock, id, hours * MS_PER_HOUR));
  if (issued === undefined) throw unknownKey(id);
  deps.logger.info('API key is rotated', { key_id: id, key_name: issued.record.name });
  sendJson(exchange, 200, { text: issued.text, key: shownKey(issued.record, deps) }, NOT_KEPT);
}

async function changeLimits(deps: HttpAppDeps, exchange: HttpExchange, id: string): Promise<void> {
  const body = requireShape(limitsSchema, await readJson(exchange, deps));
  const change = {
    requestsPerMinute: body.requests_per_minute,
    tokensPerMinute: body.tokens_per_minute,
    tokensPerDay: body.tokens_per_day,
  };
  const changed = await withStore(deps, (store) => limitKey(store, id, change));
  if (changed === undefined) throw unknownKey(id);
  deps.logger.info('limits of an API key are changed', { key_id: id, key_name: changed.name, ...body });
  sendJson(exchange, 200, shownKey(changed, deps), NOT_KEPT);
}

async function revoke(deps: HttpAppDeps, exchange: HttpExchange, id: string): Promise<void> {
  const revoked = await withStore(deps, (store) => revokeKey(store, deps.clock, id));
  if (revoked === undefined) throw unknownKey(id);
  deps.logger.info('API key is revoked', { key_id: id, key_name: revoked.name });
  sendJson(exchange, 200, shownKey(revoked, deps), NOT_KEPT);
}

/** Checks how many entries a list of the body has; its schema checks each of them. */
function requireLength(field: string, list: readonly string[] | undefined, max: number): void {
  if (list === undefined || (list.length > 0 && list.length <= max)) return;
  throw invalidValue(`${field}: 1 to ${max} entries are allowed, got ${list.length}`, field);
}

function unknownKey(id: string): ServeError {
  return new ServeError('not_found', `There is no key ${shownId(id)}`);
}

/** Works on the store of keys. A failure of the store becomes a ServeError with its text. */
async function withStore<T>({ keyStore }: HttpAppDeps, work: (store: KeyStore) => Promise<T>): Promise<T> {
  if (keyStore === undefined) {
    throw new ServeError(
      'not_implemented',
      'No store of API keys is named: set STATOR_KEYS_TABLE, or --keys-file FILE',
    );
  }
  try {
    return await work(await keyStore());
  } catch (thrown) {
    if (!(thrown instanceof KeyStoreError)) throw thrown;
    throw new ServeError('service_unavailable', `Keys cannot be managed: ${thrown.message}`, { cause: thrown });
  }
}

/** Returns a key as operators see it: without its digests. */
function shownKey(record: KeyRecord, { clock, gate }: Pick<HttpAppDeps, 'clock' | 'gate'>): ConsoleKey {
  const { id, name, owner, scopes, models, limits, createdMs, expiresMs, revokedMs } = record;
  const state = revokedMs !== undefined ? 'revoked' : isInForce(record, clock.wallMs()) ? 'valid' : 'expired';
  const use = gate?.useOf?.(record);
  return {
    id,
    name,
    owner,
    scopes: [...scopes],
    models: models === undefined ? null : [...models],
    ...shownLimits(limits),
    used: use === undefined ? null : { requests: use.requests, tokens: use.tokens, tokens_today: use.tokensToday },
    left: use === undefined ? null : shownLimits(use.left),
    created_ms: createdMs,
    expires_ms: expiresMs ?? null,
    state,
  };
}

function shownLimits({ requestsPerMinute, tokensPerMinute, tokensPerDay }: KeyLimits) {
  return {
    requests_per_minute: requestsPerMinute ?? null,
    tokens_per_minute: tokensPerMinute ?? null,
    tokens_per_day: tokensPerDay ?? null,
  };
}
