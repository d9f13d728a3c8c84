import { parseExactJson, writeExactJson } from '../../../shared/standalone/body-fields.ts';
import type { ServiceApp } from '../../../shared/standalone/service.ts';

/** An answer of a service, with its JSON parsed exactly. */
export interface ServiceAnswer {
  readonly status: number;
  readonly text: string;
  readonly json: unknown;
  readonly headers: Headers;
}

export interface ServiceClient {
  get(path: string): Promise<ServiceAnswer>;
  /** Sends `body` as JSON with exact integers; text goes unchanged. */
  send(
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<ServiceAnswer>;
  post(path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<ServiceAnswer>;
}

/** Returns a client of an app itself, or of a server by its URL. */
export function serviceClient(target: ServiceApp | string): ServiceClient {
  const exchange = async (path: string, init: RequestInit): Promise<ServiceAnswer> => {
    const response =
      typeof target === 'string'
        ? await fetch(`${target}${path}`, init)
        : await target.fetch(new Request(`http://localhost${path}`, init));
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
    return {
      status: response.status,
      text,
      json: isJson ? parseExactJson(text) : undefined,
      headers: response.headers,
    };
  };
  const send: ServiceClient['send'] = (method, path, body, headers = {}) =>
    exchange(path, {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : writeExactJson(body) }),
    });
  return { send, get: (path) => exchange(path, {}), post: (path, body, headers) => send('POST', path, body, headers) };
}
