import { endOfTurn, untilAborted } from '../../../../concurrency/index.ts';
import { ServeError } from '../../../../errors/index.ts';
import {
  jsonPieces,
  type NamedLogprob,
  openSummary,
  requestKeyOf,
  storedIdOf,
  type TokenLogprob,
} from '../../../../protocol/index.ts';
import type { JsonObject, StoredResponse } from '../../../../responses/index.ts';
import { cancelRequest } from '../../../inference/lifecycle.ts';
import type { HttpAppDeps } from '../../deps.ts';
import type { HttpExchange } from '../../exchange/exchange.ts';
import { pathBelow } from '../../route.ts';
import { DONE_FRAME } from '../../sinks/dialect-sink.ts';
import { EVENT_STREAM, sendStored } from '../../sinks/send.ts';
import { type FinalEvent, ItemEvents } from './outlets.ts';
import type { OutputItem } from './output-items.ts';
import { findStored, lookForStored, responseNotFound, storeFailure } from './response-keeper.ts';
import { ResponseSink } from './response-sink.ts';

const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 100;

/**
 * `GET` and `DELETE /v1/responses/{id}`: reads or deletes a stored response. `GET` also reads one that this process is
 * generating. With `stream=true` it sends the events, from the one after `starting_after`.
 */
export async function serveStoredResponse(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const id = idOf(deps, exchange);
  if (exchange.method === 'DELETE') return sendStored(exchange, await deleteStored(deps, exchange, id));
  const replay = readReplayQuery(new URLSearchParams(exchange.query));
  if (replay !== undefined) return serveReplay(deps, exchange, id, replay);
  const running = findRunning(deps, id, exchange)?.snapshot();
  await sendStored(exchange, running ?? (await findStored(deps, id, exchange)).response);
}

/** Pauses between look-ups of a response, which another edge stores after it has heard that the response ended. */
const STORED_PAUSES_MS = [50, 100, 200, 400];

/**
 * `POST /v1/responses/{id}/cancel`: ends a running response, here or at another edge. Returns a complete response as it
 * is.
 */
export async function serveResponseCancel(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const id = idOf(deps, exchange);
  const found = findRunning(deps, id, exchange);
  if (found !== undefined) deps.lifecycle.running.cancel(id, exchange.grant.owner);
  await sendStored(exchange, found?.snapshot() ?? (await cancelElsewhere(deps, id, exchange)));
}

/**
 * Ends a response at another edge.
 * @throws ServeError `not_found`, or `service_unavailable` if the store or a worker does not answer
 */
async function cancelElsewhere(deps: HttpAppDeps, id: string, exchange: HttpExchange): Promise<JsonObject> {
  if (requestKeyOf(id) === undefined) throw responseNotFound(id); // saves a look-up in the store
  const stored = await lookForStored(deps, id, exchange);
  if (stored !== undefined) return stored.response;
  if (!(await cancelRequest(deps, id, exchange.grant.owner))) throw responseNotFound(id);
  for (const pauseMs of deps.responseStore === undefined ? [] : STORED_PAUSES_MS) {
    await deps.clock.sleep(pauseMs, exchange.sink.closed);
    const kept = await lookForStored(deps, id, exchange);
    if (kept !== undefined) return kept.response;
  }
  return { id, object: 'response', status: 'cancelled', output: [] }; // only its own edge knows the output
}

/**
 * `GET /v1/responses/{id}/input_items`: lists items, newest first unless `order=asc`. `limit` is 1 to 100; `after` is
 * an item's id.
 */
export async function serveInputItems(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const query = new URLSearchParams(exchange.query);
  const limit = readLimit(query.get('limit'));
  const order = readOrder(query.get('order'));
  const { input } = await findStored(deps, idOf(deps, exchange), exchange);
  const ordered = order === 'asc' ? input : input.toReversed();
  const from = afterIndex(ordered, query.get('after'));
  const data = ordered.slice(from, from + limit);
  await sendStored(exchange, {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: from + limit < ordered.length,
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

/** Returns the id in a path that matched: the text between the API's path and the next slash. */
function idOf({ settings }: HttpAppDeps, { path }: HttpExchange): string {
  return path.slice(pathBelow(settings.paths.responses).length + 1).split('/')[0]!; // a split has at least one part
}

/** Returns a response that this process is generating; undefined if the owner has no such response. */
function findRunning({ lifecycle }: HttpAppDeps, id: string, { grant }: HttpExchange): ResponseSink | undefined {
  const sink = lifecycle.running.sinkOf(id, grant.owner);
  return sink instanceof ResponseSink && sink.isResponse ? sink : undefined;
}

/** Characters to write before other requests get a turn. */
const TURN_CHARS = 128 * 1024;

/** The events that a client wants of a response: those after `after`, or all for -1. */
interface ReplayQuery {
  readonly after: number;
}

/** Reads the query; undefined if it asks for the object. @throws ServeError `invalid_value` */
function readReplayQuery(query: URLSearchParams): ReplayQuery | undefined {
  const stream = query.get('stream') ?? 'false';
  if (stream !== 'true' && stream !== 'false') {
    throw new ServeError('invalid_value', `stream must be true or false, got ${stream}`, { param: 'stream' });
  }
  const text = query.get('starting_after');
  if (text === null) return stream === 'true' ? { after: -1 } : undefined;
  const after = Number(text);
  if (stream === 'true' && /^\d+$/.test(text) && Number.isSafeInteger(after)) return { after };
  const problem = stream === 'true' ? `must be the number of an event, got ${text}` : 'needs stream=true';
  throw new ServeError('invalid_value', `starting_after ${problem}`, { param: 'starting_after' });
}

/**
 * Sends the events of a response. If this process is still generating it, the events come when it is complete.
 * @throws ServeError `not_found`, `service_unavailable`, `deadline_exceeded`
 */
async function serveReplay(
  deps: HttpAppDeps,
  exchange: HttpExchange,
  id: string,
  { after }: ReplayQuery,
): Promise<void> {
  const { sink } = exchange;
  const made = findRunning(deps, id, exchange);
  const found = made === undefined ? await findStored(deps, id, exchange) : await untilLeft(made.recorded, exchange);
  if (found === undefined) throw responseNotFound(id);
  exchange.head(200, EVENT_STREAM);
  let chars = 0;
  for (const text of replayFrames(found, after)) {
    if (sink.isBlocked()) await new Promise<void>((resolve) => sink.onUnblocked(resolve));
    else if (chars >= TURN_CHARS) {
      chars = 0;
      await endOfTurn();
    }
    if (sink.closed.aborted) return;
    sink.write(text);
    chars += text.length;
  }
  sink.write(DONE_FRAME);
  sink.end();
}

type Recorded = Pick<StoredResponse, 'response' | 'pieces'>;

/** Waits for a response, whose own time is bounded, but no longer than the client and the host wait. */
function untilLeft<T>(made: Promise<T>, { sink, deadline }: HttpExchange): Promise<T> {
  const whileRead = untilAborted(made, sink.closed);
  return deadline === undefined ? whileRead : untilAborted(whileRead, deadline);
}

const FINAL_EVENTS: Readonly<Record<string, FinalEvent>> = {
  completed: 'response.completed',
  failed: 'response.failed',
};

/** Fields of a response before its first output. */
const UNSAID = {
  status: 'in_progress',
  output: [],
  usage: null,
  completed_at: null,
  error: null,
  incomplete_details: null,
} as const;

/**
 * Yields the events of a complete response, numbered as in its stream: a client that lost the stream goes on after the
 * last event that it has. Log probabilities are in the events that close a text, not in its deltas. No piece of text is
 * large.
 * @param after number of the last event to leave out; -1 = none
 */
function* replayFrames({ response, pieces }: Recorded, after: number): Generator<string> {
  const frames: Iterable<string>[] = [];
  let number = 0;
  const write = (frame: Iterable<string>): void => {
    if (number++ > after) frames.push(frame);
  };
  const items = new ItemEvents(
    (frame) => write([frame]),
    hasSummary(response),
    (lead, data, end) => write(eventPieces(lead, data, end)),
  );
  const tell = (type: string, told: JsonObject): void => write(eventPieces(items.responseHead(type), told, '}\n\n'));
  const unsaid = { ...response, ...UNSAID };
  tell('response.created', unsaid);
  tell('response.in_progress', unsaid);
  for (const [index, body] of (response.output as readonly JsonObject[]).entries()) {
    const item = itemOf(body, index);
    items.opened({ ...item, text: '', logprobs: [], status: 'in_progress' });
    yield* inOrder(frames.splice(0));
    for (const text of piecesOf(item.text, pieces?.[index])) {
      items.grew(item, text, undefined);
      yield* inOrder(frames.splice(0));
    }
    items.closed(item);
    yield* inOrder(frames.splice(0));
  }
  tell(FINAL_EVENTS[String(response.status)] ?? 'response.incomplete', response);
  yield* inOrder(frames);
}

function* eventPieces(lead: string, data: unknown, end: string): Generator<string> {
  yield lead;
  yield* jsonPieces(data);
  yield end;
}

function* inOrder(frames: readonly Iterable<string>[]): Generator<string> {
  for (const frame of frames) yield* frame;
}

function hasSummary({ reasoning }: JsonObject): boolean {
  return typeof reasoning === 'object' && reasoning !== null && (reasoning as JsonObject).summary != null;
}

/** Yields the text in the pieces in which it came, or in one piece if their lengths are unknown. */
function* piecesOf(text: string, lengths: readonly number[] | undefined): Generator<string> {
  let from = 0;
  for (const length of lengths ?? []) {
    yield text.slice(from, from + length);
    from += length;
  }
  if (from < text.length) yield text.slice(from);
}

/** Returns the item that `body` was made of (`itemBody`). */
function itemOf(body: JsonObject, index: number): OutputItem {
  const part = (body.content as readonly JsonObject[] | undefined)?.[0];
  return {
    kind: body.type as OutputItem['kind'],
    id: String(body.id),
    index,
    callId: String(body.call_id ?? ''),
    name: String(body.name ?? ''),
    namespace: body.namespace === undefined ? undefined : String(body.namespace),
    text: textOf(body, part),
    pieces: [],
    logprobs: Array.from((part?.logprobs ?? []) as Iterable<WrittenLogprob>, readLogprob),
    status: (body.status ?? 'completed') as OutputItem['status'],
  };
}

function textOf(body: JsonObject, part: JsonObject | undefined): string {
  switch (body.type) {
    case 'function_call':
      return String(body.arguments);
    case 'custom_tool_call':
      return String(body.input);
    case 'tool_search_call':
      return typeof body.arguments === 'string' ? body.arguments : JSON.stringify(body.arguments);
    case 'compaction':
      return openSummary(String(body.encrypted_content)) ?? '';
    default:
      return String(part?.text ?? '');
  }
}

type WrittenLogprob = NamedLogprob & { readonly top_logprobs: TokenLogprob['top'] };

function readLogprob({ top_logprobs: top, ...token }: WrittenLogprob): TokenLogprob {
  return { ...token, top };
}
