import { ServeError, toServeError } from '../../../../errors/index.ts';
import { requestKeyOf } from '../../../../protocol/generation/index.ts';
import { storedIdOf } from '../../../../protocol/openai/index.ts';
import type { JsonObject, StoredResponse } from '../../../../responses/index.ts';
import { cancelRequest } from '../../../inference/index.ts';
import type { HttpAppDeps } from '../../deps.ts';
import type { HttpExchange } from '../../hosts/exchange.ts';
import { sendError, sendStored } from '../../sinks/send.ts';
import { readReplayQuery, serveReplay } from './replay.ts';
import { findStored, lookForStored, responseNotFound, storeFailure } from './response-keeper.ts';

/** A response that is being made in this process. */
export interface RunningResponse {
  readonly owner: string;
  /** The response as it stands; its last state once it is over. */
  snapshot(): JsonObject;
  /** The response once it is over; undefined when it ended without one. Never rejects. */
  readonly recorded: Promise<Pick<StoredResponse, 'response' | 'pieces'> | undefined>;
}

const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 100;

/**
 * `GET` and `DELETE /v1/responses/{id}`: a stored one, or, to look at, one that is being made in this process. With
 * `stream=true` its events, from the one behind `starting_after` on.
 */
export async function serveStoredResponse(
  deps: HttpAppDeps,
  exchange: HttpExchange,
  id: string,
  running: RunningResponses,
): Promise<void> {
  await responding(deps, exchange, async () => {
    if (exchange.method === 'DELETE') return deleteStored(deps, exchange, id);
    const replay = readReplayQuery(new URLSearchParams(exchange.query));
    if (replay !== undefined) {
      await serveReplay(deps, exchange, id, running, replay);
      return undefined;
    }
    return running.find(id, exchange.grant.owner)?.snapshot() ?? (await findStored(deps, id, exchange)).response;
  });
}

/** Pauses between looks for a response that another edge stores once it has heard of its end. */
const STORED_PAUSES_MS = [50, 100, 200, 400];

/**
 * `POST /v1/responses/{id}/cancel`: ends a response that is being made, here or at another edge. One that is complete is given
 * back as it is.
 */
export async function serveResponseCancel(
  deps: HttpAppDeps,
  exchange: HttpExchange,
  id: string,
  running: RunningResponses,
): Promise<void> {
  await responding(deps, exchange, async () => {
    const { owner } = exchange.grant;
    const found = running.find(id, owner);
    if (found === undefined) return cancelElsewhere(deps, id, exchange);
    deps.lifecycle.running.cancel(id, owner);
    return found.snapshot();
  });
}

/** @throws ServeError `not_found`, or `service_unavailable` when the store or a worker cannot be asked */
async function cancelElsewhere(deps: HttpAppDeps, id: string, exchange: HttpExchange): Promise<JsonObject> {
  if (requestKeyOf(id) === undefined) throw responseNotFound(id); // costs no look into the store
  const stored = await lookForStored(deps, id, exchange);
  if (stored !== undefined) return stored.response;
  if (!(await cancelRequest(deps, id, exchange.grant.owner))) throw responseNotFound(id);
  for (const pauseMs of deps.responseStore === undefined ? [] : STORED_PAUSES_MS) {
    await deps.clock.sleep(pauseMs, exchange.sink.closed);
    const kept = await lookForStored(deps, id, exchange);
    if (kept !== undefined) return kept.response;
  }
  return { id, object: 'response', status: 'cancelled', output: [] }; // what it had said, its own edge alone knows
}

/** `GET /v1/responses/{id}/input_items`: newest first, unless `order=asc`; `limit` 1 to 100; `after` an item's id. */
export async function serveInputItems(deps: HttpAppDeps, exchange: HttpExchange, id: string): Promise<void> {
  await responding(deps, exchange, async () => {
    const query = new URLSearchParams(exchange.query);
    const limit = readLimit(query.get('limit'));
    const order = readOrder(query.get('order'));
    const { input } = await findStored(deps, id, exchange);
    const ordered = order === 'asc' ? input : input.toReversed();
    const from = afterIndex(ordered, query.get('after'));
    const data = ordered.slice(from, from + limit);
    return {
      object: 'list',
      data,
      first_id: data[0]?.id ?? null,
      last_id: data.at(-1)?.id ?? null,
      has_more: from + limit < ordered.length,
    };
  });
}

async function deleteStored(deps: HttpAppDeps, exchange: HttpExchange, id: string): Promise<JsonObject> {
  const { grant, sink } = exchange;
  await findStored(deps, id, exchange);
  try {
    await deps.responseStore?.delete(storedIdOf(id), grant.owner, sink.closed);
  } catch (cause) {
    throw storeFailure(deps, id, cause, sink.closed);
  }
  return { id, object: 'response', deleted: true };
}

async function responding(
  { settings }: HttpAppDeps,
  exchange: HttpExchange,
  make: () => Promise<JsonObject | undefined>,
): Promise<void> {
  try {
    const body = await make();
    if (body !== undefined) await sendStored(exchange, body); // else it has been sent
  } catch (thrown) {
    sendError(exchange, toServeError(thrown), settings.overloadStatus);
  }
}

function readLimit(text: string | null): number {
  if (text === null) return LIMIT_DEFAULT;
  const limit = Number(text);
  if (Number.isInteger(limit) && limit >= 1 && limit <= LIMIT_MAX) return limit;
  throw new ServeError('invalid_value', `limit must be between 1 and ${LIMIT_MAX}, got ${text}`, { param: 'limit' });
}

function readOrder(text: string | null): 'asc' | 'desc' {
  if (text === null || text === 'desc' || text === 'asc') return text ?? 'desc';
  throw new ServeError('invalid_value', `order must be asc or desc, got ${text}`, { param: 'order' });
}

function afterIndex(items: readonly JsonObject[], after: string | null): number {
  if (after === null) return 0;
  const at = items.findIndex((item) => item.id === after);
  if (at >= 0) return at + 1;
  throw new ServeError('invalid_value', `no item with id '${after}'`, { param: 'after' });
}

/** The responses under way in this process, by id. Bounded by the requests that are under way. */
export class RunningResponses {
  readonly #byId = new Map<string, RunningResponse>();

  add(id: string, running: RunningResponse): void {
    this.#byId.set(id, running);
  }

  /** @param running the one that ended: a later one of the same id stays */
  remove(id: string, running: RunningResponse): void {
    if (this.#byId.get(id) === running) this.#byId.delete(id);
  }

  /** Undefined for ids that nobody works on and for those of another owner. */
  find(id: string, owner: string): RunningResponse | undefined {
    const running = this.#byId.get(storedIdOf(id));
    return running?.owner === owner ? running : undefined;
  }
}
