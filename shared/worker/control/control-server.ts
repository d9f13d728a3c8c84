import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Admission, refuseCaller } from '../../access/index.ts';
import { readText } from '../../concurrency/index.ts';
import { ServeError, toServeError, workerError } from '../../errors/index.ts';
import type { PlaneServerTls } from '../../planes/index.ts';
import { isRecord, type UnknownRecord } from '../../records/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import type { WorkerControl } from './control.ts';
import { type SmallServer, startSmallServer } from './small-server.ts';

export interface ControlServerOptions {
  /** Returns the controls of the worker, once it serves. */
  control(): WorkerControl | undefined;
  readonly admission: Admission;
  /** Certificate of the server. @default no TLS */
  readonly tls?: PlaneServerTls | undefined;
  readonly logger: Logger;
  /** Port to listen on (`STATOR_CONTROL_PORT`); 0 = any free port. */
  readonly port: number;
  /** Host to listen on (`STATOR_CONTROL_HOST`). */
  readonly host: string;
}

/**
 * Serves the controls of a worker to callers that may use them. The port is separate from the metrics, so that scrapers
 * do not reach the controls.
 * @throws Error with a text for the operator if the port is not available
 */
export function startControlServer(options: ControlServerOptions): Promise<SmallServer> {
  const { host, port, tls, logger } = options;
  const ports = { first: port, last: port };
  const place = { name: 'control server', host, ports, portSetting: 'STATOR_CONTROL_PORT', tls, logger };
  return startSmallServer(place, (request, response) => answer(options, request, response));
}

async function answer(
  { control, admission }: ControlServerOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const refusal = refuseCaller(admission, callerOf(request));
  if (refusal !== undefined) {
    const headers = refusal.status === 401 ? { 'www-authenticate': 'Bearer' } : {};
    answerJson(response, refusal.status, { status: 'error', message: refusal.message }, headers);
    return;
  }
  const path = (request.url ?? '/').split('?', 1)[0] ?? '/';
  const call = controlOf(request.method ?? '', path);
  if (call === undefined) answerJson(response, 404, { status: 'error', message: 'no such control' });
  else await answerControl(control(), call, request, response);
}

function callerOf({ socket, headers, httpVersion }: IncomingMessage): Parameters<typeof refuseCaller>[1] {
  return { peer: socket.remoteAddress, httpVersion, header: (name) => [headers[name]].flat()[0] };
}

const BODY_BOUNDS = { bytesMax: 64 * 1024, timeoutMs: 30_000 };

/** A request that is a control. */
interface ControlCall {
  readonly name: string;
  /** Name of the adapter as the path has it, not decoded. */
  readonly adapter?: string;
}

/** Returns the control of a route; undefined = the route has none. */
export function controlOf(method: string, path: string): ControlCall | undefined {
  if (path === '/v1/loras' && method === 'POST') return { name: 'load_lora' };
  if (path === '/v1/loras' && method === 'GET') return { name: 'list_loras' };
  const [, adapter] = /^\/v1\/loras\/(.+)$/.exec(path) ?? [];
  if (adapter !== undefined && method === 'DELETE') return { name: 'unload_lora', adapter };
  const [, control] = /^\/engine\/(?:control\/)?([a-z_]+)$/.exec(path) ?? [];
  return control !== undefined && method === 'POST' ? { name: control } : undefined;
}

/** Runs a control and answers with its result. Never rejects. */
async function answerControl(
  control: WorkerControl | undefined,
  call: ControlCall,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort(new Error('the asker is gone')));
  try {
    const named = call.adapter === undefined ? {} : { lora_name: decodeName(call.adapter) };
    const body = { ...(await readFields(request)), ...named };
    if (control === undefined) throw workerError('Unavailable', 'the worker is not ready');
    answerJson(response, 200, await control.run(call.name, body, gone.signal));
  } catch (thrown) {
    const error = toServeError(thrown);
    // Callers of this port operate the worker, so they may read the engine's own message.
    const message = error.cause instanceof Error ? error.cause.message : String(error.cause ?? error.message);
    answerJson(response, error.status, { status: 'error', message });
  }
}

function decodeName(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new ServeError('invalid_value', 'the name in the path is not valid percent-encoding');
  }
}

/** Returns the fields of a body; an empty body has none. */
async function readFields(request: IncomingMessage): Promise<UnknownRecord> {
  const body = await readJson(request);
  if (isRecord(body)) return body;
  const kind = body === null ? 'null' : Array.isArray(body) ? 'a list' : `a ${typeof body}`;
  throw new ServeError('invalid_value', `the body must be a JSON object, not ${kind}`);
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const { kind, text } = await readText(request as AsyncIterable<Buffer>, BODY_BOUNDS);
  if (kind === 'too-large') {
    throw new ServeError('request_too_large', `the body exceeds ${BODY_BOUNDS.bytesMax} bytes`);
  }
  if (kind === 'no-utf8') throw new ServeError('invalid_json', 'the body is not UTF-8');
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text);
  } catch {
    throw new ServeError('invalid_json', 'the body is not JSON');
  }
}

/** Answers with JSON, unless an answer was already sent or the client is gone. */
function answerJson(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}
