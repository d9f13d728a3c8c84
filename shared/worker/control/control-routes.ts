import type { IncomingMessage, ServerResponse } from 'node:http';
import { ServeError, toServeError, workerError } from '../../errors/index.ts';
import type { WorkerControl } from './control.ts';

const BODY_BYTES_MAX = 64 * 1024;

/** A request of the status server that is a control, as its name and the fields that its path says. */
interface ControlCall {
  readonly name: string;
  readonly fields: Readonly<Record<string, string>>;
}

/** The control behind a route of the status server (runtime-and-workers.md, section 10.1); undefined = none. */
export function controlOf(method: string, path: string): ControlCall | undefined {
  if (path === '/v1/loras' && method === 'POST') return { name: 'load_lora', fields: {} };
  if (path === '/v1/loras' && method === 'GET') return { name: 'list_loras', fields: {} };
  const [, adapter] = /^\/v1\/loras\/(.+)$/.exec(path) ?? [];
  if (adapter !== undefined && method === 'DELETE') {
    return { name: 'unload_lora', fields: { lora_name: decodeURIComponent(adapter) } };
  }
  const [, control] = /^\/engine\/(?:control\/)?([a-z_]+)$/.exec(path) ?? [];
  return control !== undefined && method === 'POST' ? { name: control, fields: {} } : undefined;
}

/** Runs a control and answers with what it says. Never rejects. */
export async function answerControl(
  control: WorkerControl | undefined,
  call: ControlCall,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort(new Error('the asker is gone')));
  try {
    const body = { ...((await readJson(request)) as object), ...call.fields };
    if (control === undefined) throw workerError('Unavailable', 'the worker is not ready');
    answer(response, 200, await control.run(call.name, body, gone.signal));
  } catch (thrown) {
    const error = toServeError(thrown);
    // Whoever reaches this port operates the worker: the engine's own words are for them.
    const message = error.cause instanceof Error ? error.cause.message : String(error.cause ?? error.message);
    answer(response, error.status, { status: 'error', message });
  }
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  let text = '';
  for await (const chunk of request) {
    text += String(chunk);
    if (text.length > BODY_BYTES_MAX) throw new ServeError('request_too_large', 'the body is too large');
  }
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ServeError('invalid_json', 'the body is no JSON', { cause });
  }
}

function answer(response: ServerResponse, status: number, body: object): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
