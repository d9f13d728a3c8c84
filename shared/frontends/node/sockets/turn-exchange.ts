import type { IncomingMessage } from 'node:http';
import type { BodyIntake } from '../../http/exchange/body-intake.ts';
import type { HostExchange, ResponseMemory } from '../../http/exchange/exchange.ts';
import { KEY_PROTOCOL } from '../../http/socket-access.ts';
import { schemeOf } from '../node-exchange.ts';
import type { TurnSink } from './turn-sink.ts';

/**
 * Returns the sub-protocol to agree on, because a browser accepts no answer without one. It is the first that is not a
 * key, if there is one.
 */
export function agreedProtocol(offered: Iterable<string>): string | false {
  const all = [...offered];
  return all.find((protocol) => !protocol.startsWith(KEY_PROTOCOL)) ?? all[0] ?? false;
}

/**
 * Returns the `Authorization` of a request that asks for a WebSocket: its own, or that of the key among its
 * sub-protocols.
 */
export function shownAuthorization({ headers }: IncomingMessage): string | undefined {
  if (headers.authorization !== undefined) return headers.authorization;
  const offered = headers['sec-websocket-protocol']?.split(',').map((protocol) => protocol.trim()) ?? [];
  const shown = offered.find((protocol) => protocol.startsWith(KEY_PROTOCOL));
  return shown === undefined ? undefined : `Bearer ${shown.slice(KEY_PROTOCOL.length)}`;
}

/**
 * Headers of the request for the socket that do not apply to an event on it. An id that the request chose cannot be the
 * id of every event.
 */
const OF_THE_SOCKET = new Set([
  'authorization',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'transfer-encoding',
  'upgrade',
  'x-dynamo-request-id',
  'x-request-id',
]);

function isOfTheSocket(name: string): boolean {
  return OF_THE_SOCKET.has(name) || name.startsWith('sec-websocket-');
}

interface TurnDeps {
  /** Request that asked for the socket. */
  readonly request: IncomingMessage;
  readonly event: Uint8Array;
  readonly sink: TurnSink;
  readonly memory: ResponseMemory;
  /** Gives the room of the event back, because its reader takes it again. */
  readonly onRead: () => void;
}

/** One event of a client, as a request of the same path: the app answers it as over HTTP. */
export class TurnExchange implements HostExchange {
  readonly method = 'POST';
  readonly query = '';
  path: string;
  readonly peer: string | undefined;
  readonly headerLines: number;
  readonly sink: TurnSink;
  readonly memory: ResponseMemory;
  readonly #deps: TurnDeps;

  constructor(deps: TurnDeps) {
    const { request, sink, memory } = deps;
    this.#deps = deps;
    this.path = pathOf(request.url ?? '/');
    this.peer = request.socket.remoteAddress;
    this.headerLines = request.rawHeaders.length / 2;
    this.sink = sink;
    this.memory = memory;
  }

  get scheme(): 'ws' | 'wss' {
    return schemeOf(this.#deps.request) === 'https' ? 'wss' : 'ws';
  }

  headerNames(): readonly string[] {
    return [...Object.keys(this.#deps.request.headers).filter((name) => !isOfTheSocket(name)), 'content-type'];
  }

  header(name: string): string | undefined {
    if (name === 'content-type') return 'application/json';
    if (name === 'authorization') return shownAuthorization(this.#deps.request);
    if (isOfTheSocket(name)) return undefined;
    const value = this.#deps.request.headers[name];
    return typeof value === 'string' ? value : value?.[0];
  }

  async readBody(intake: BodyIntake): Promise<void> {
    const { event, onRead } = this.#deps;
    onRead();
    intake.expect(event.length);
    intake.add(event);
  }
}

/** Returns the path of a target, without scheme, host and query. */
export function pathOf(target: string): string {
  const path = target.startsWith('/') || !URL.canParse(target) ? target : new URL(target).pathname;
  const mark = path.indexOf('?');
  return mark < 0 ? path : path.slice(0, mark);
}
