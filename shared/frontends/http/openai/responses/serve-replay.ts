import { endOfTurn } from '../../../../concurrency/index.ts';
import { ServeError } from '../../../../errors/index.ts';
import type { StoredResponse } from '../../../../responses/index.ts';
import type { HttpAppDeps } from '../../deps.ts';
import type { HttpExchange } from '../../hosts/exchange.ts';
import { replayFrames } from './replay.ts';
import { ANYBODY, findStored, responseNotFound } from './response-keeper.ts';
import type { RunningResponses } from './serve-stored.ts';

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
 * Answers with the events of a response. One that is still being made in this process is told once it is complete.
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
  const made = running.find(id, ANYBODY);
  const found = made === undefined ? await findStored(deps, id, sink.closed) : await whenMade(made.recorded, exchange);
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
