import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Clock } from '../../clock/index.ts';
import { OpenOnce, readText } from '../../concurrency/index.ts';
import { type PlannerRecords, PlannerViewers } from '../../console/index.ts';
import { codeRow, ServeError, toServeError } from '../../errors/index.ts';
import { answerQuestion, sendPageFile } from '../../frontends/index.ts';
import { parseJsonBody } from '../../protocol/index.ts';

const PAGE = '/planner/';
const API = '/console/api';
const BODY_BOUNDS = { bytesMax: 4096, timeoutMs: 30_000 };
const HOW_TO_START = 'This planner runs, and has not ticked yet: it waits for a worker or a frontend of its fleet.';
const NOT_KEPT = { 'cache-control': 'no-store' };

/** The Planner page of the console as a planner serves it to its own machine. */
export interface LivePage {
  readonly listener: RequestListener;
  close(): void;
}

/** Creates the page. @param records those of its planner alone */
export function livePage(clock: Clock, records: PlannerRecords): LivePage {
  const planners = new PlannerViewers(clock, HOW_TO_START, new OpenOnce(async () => records));
  const listener: RequestListener = (request, response) => {
    answer(planners, request, response).catch((thrown: unknown) => fail(response, toServeError(thrown)));
  };
  return { listener, close: () => planners.close() };
}

async function answer(planners: PlannerViewers, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [path = '/', ...rest] = (request.url ?? '/').split('?');
  const query = new URLSearchParams(rest.join('?'));
  const isGet = request.method === 'GET' || request.method === 'HEAD';
  if (isGet && (path === '/' || `${path}/` === PAGE)) {
    response.writeHead(303, { location: PAGE, 'content-length': '0' }).end();
  } else if (isGet && path.startsWith(PAGE)) {
    if (!(await sendPageFile(placeOf(request, response), path.slice(PAGE.length)))) throw notFound(path);
  } else if (isGet && path === API) await show(planners, query, request, response);
  else if (request.method === 'POST' && path === `${API}/what-if`) {
    const asked = parseJsonBody(Buffer.from(await readBody(request)));
    sendJson(response, 200, JSON.stringify(await answerQuestion(planners, asked, goneSignal(response))));
  } else throw notFound(path);
}

async function show(
  planners: PlannerViewers,
  query: URLSearchParams,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const view = query.get('view') ?? 'planner';
  if (view !== 'planner') throw new ServeError('invalid_value', `Query parameter view: a planner has only planner`);
  const model = query.get('model') ?? '';
  const follows = request.method === 'GET' && request.headers.accept?.includes('text/event-stream') === true;
  if (!follows) {
    return sendJson(response, 200, await planners.now(model));
  }
  // nginx would hold events back.
  response.writeHead(200, { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no', ...NOT_KEPT });
  response.flushHeaders();
  const leave = planners.add(model, {
    send: (text) => void response.write(text),
    isBehind: () => response.writableNeedDrain,
    breakOff: () => void response.destroy(),
  });
  response.once('close', leave);
}

function placeOf(request: IncomingMessage, response: ServerResponse) {
  return {
    header: (name: string) => request.headers[name]?.toString(),
    head: (status: number, headers: Readonly<Record<string, string>>) => void response.writeHead(status, headers),
    sink: {
      write: (bytes: string | Uint8Array) => void response.write(bytes),
      end: () => void response.end(),
    },
  };
}

/** Returns a signal that aborts when the client leaves. */
function goneSignal(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  response.once('close', () => gone.abort(new Error('the client has left')));
  return gone.signal;
}

async function readBody(request: IncomingMessage): Promise<string> {
  const { kind, text } = await readText(request as AsyncIterable<Buffer>, BODY_BOUNDS);
  if (kind === 'too-large') {
    throw new ServeError('request_too_large', `A question has at most ${BODY_BOUNDS.bytesMax} bytes`);
  }
  if (kind === 'no-utf8') throw new ServeError('invalid_value', 'A question is UTF-8');
  return text;
}

function notFound(path: string): ServeError {
  return new ServeError('not_found', `Only ${PAGE} and ${API}?view=planner are here, not ${path.slice(0, 300)}`);
}

function fail(response: ServerResponse, { code, message }: ServeError): void {
  if (response.headersSent) response.destroy();
  else sendJson(response, codeRow(code).status, JSON.stringify({ error: { message, code } }));
}

function sendJson(response: ServerResponse, status: number, json: string): void {
  response.writeHead(status, { 'content-type': 'application/json', ...NOT_KEPT }).end(json);
}
