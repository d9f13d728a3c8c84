import { endOfTurn } from '../../../../concurrency/index.ts';
import { ServeError } from '../../../../errors/index.ts';
import type { NamedLogprob, TokenLogprob } from '../../../../protocol/generation/index.ts';
import { jsonPieces } from '../../../../protocol/json/index.ts';
import { openSummary } from '../../../../protocol/openai/index.ts';
import type { JsonObject, StoredResponse } from '../../../../responses/index.ts';
import type { HttpAppDeps } from '../../deps.ts';
import type { HttpExchange } from '../../hosts/exchange.ts';
import { ItemEvents } from './item-events.ts';
import type { FinalEvent } from './outlets.ts';
import type { OutputItem } from './output-items.ts';
import { findStored, responseNotFound } from './response-keeper.ts';
import type { RunningResponses } from './stored.ts';

/** Characters that are written before others get a turn. */
const TURN_CHARS = 128 * 1024;

/** What a client wants of a response's events: those behind `after`, or all for -1. */
interface ReplayQuery {
  readonly after: number;
}

/** Undefined when the query asks for the object. @throws ServeError `invalid_value` */
export function readReplayQuery(query: URLSearchParams): ReplayQuery | undefined {
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
 * Sends the events of a response. One that is still being made in this process is told once it is complete.
 * @throws ServeError `not_found`, `service_unavailable`, `deadline_exceeded`
 */
export async function serveReplay(
  deps: HttpAppDeps,
  exchange: HttpExchange,
  id: string,
  running: RunningResponses,
  { after }: ReplayQuery,
): Promise<void> {
  const { sink } = exchange;
  const made = running.find(id, exchange.grant.owner);
  const found = made === undefined ? await findStored(deps, id, exchange) : await whenMade(made.recorded, exchange);
  if (found === undefined) throw responseNotFound(id);
  exchange.head(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
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
  sink.end();
}

type Recorded = Pick<StoredResponse, 'response' | 'pieces'>;

/** Waits as long as the response takes, whose own time is bounded, and no longer than the client and the host do. */
function whenMade(
  recorded: Promise<Recorded | undefined>,
  { sink, deadline }: HttpExchange,
): Promise<Recorded | undefined> {
  return new Promise((resolve, reject) => {
    const leave = (): void => reject(new ServeError('client_closed_request', 'client disconnected'));
    const late = (): void => reject(new ServeError('deadline_exceeded', 'Request deadline exceeded'));
    sink.closed.addEventListener('abort', leave, { once: true });
    deadline?.addEventListener('abort', late, { once: true });
    recorded.then(resolve, reject).finally(() => {
      sink.closed.removeEventListener('abort', leave);
      deadline?.removeEventListener('abort', late);
    });
  });
}

const FINAL_EVENTS: Readonly<Record<string, FinalEvent>> = {
  completed: 'response.completed',
  failed: 'response.failed',
};

/** What a response is told as before anything was said. */
const UNSAID = {
  status: 'in_progress',
  output: [],
  usage: null,
  completed_at: null,
  error: null,
  incomplete_details: null,
} as const;

/**
 * The events of a response that is complete, numbered as its stream numbered them: a client that lost the stream goes on
 * behind the last event that it has. Log probabilities stand in the events that close a text, not in its deltas.
 * Comes as pieces of text, of which no one is large.
 * @param after number of the last event that is left out; -1 for none
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

/** The text as it was said; in one piece where nobody noted how. */
function* piecesOf(text: string, lengths: readonly number[] | undefined): Generator<string> {
  let from = 0;
  for (const length of lengths ?? []) {
    yield text.slice(from, from + length);
    from += length;
  }
  if (from < text.length) yield text.slice(from);
}

/** The item that `body` was written of (`itemBody`). */
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
      return openSummary(String(body.encrypted_content), 'encrypted_content');
    default:
      return String(part?.text ?? '');
  }
}

type WrittenLogprob = NamedLogprob & { readonly top_logprobs: TokenLogprob['top'] };

function readLogprob({ top_logprobs: top, ...token }: WrittenLogprob): TokenLogprob {
  return { ...token, top };
}
