import type { IncomingMessage } from 'node:http';
import type { BodyIntake } from '../../http/exchange/body-intake.ts';
import type { HostExchange, ResponseMemory } from '../../http/exchange/exchange.ts';
import { KEY_PROTOCOL } from '../../http/socket-access.ts';
import { schemeOf } from '../node-exchange.ts';
import type { TurnSink } from './turn-sink.ts';

/** The sub-protocol that is agreed on: a browser takes no answer without one. The first that is no key, if there is one. */
export function agreedProtocol(offered: Iterable<string>): string | false {
  const all = [...offered];
  return all.find((protocol) => !protocol.startsWith(KEY_PROTOCOL)) ?? all[0] ?? false;
}

/** `Authorization` of a request that asks for a WebSocket: its own, or that of the key among its sub-protocols. */
export function shownAuthorization({ headers }: IncomingMessage): string | undefined {
  if (headers.authorization !== undefined) return headers.authorization;
  const offered = headers['sec-websocket-protocol']?.split(',').map((protocol) => protocol.trim()) ?? [];
  const shown = offered.find((protocol) => protocol.startsWith(KEY_PROTOCOL));
  return shown === undefined ? undefined : `Bearer ${shown.slice(KEY_PROTOCOL.length)}`;
}

/** Headers of the request for a socket that say nothing of an event on it; ids that one request may choose are no ids of all. */
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

interface TurnParts {
  /** That asked for the socket. */
  readonly request: IncomingMessage;
  readonly event: Uint8Array;
  readonly sink: TurnSink;
  readonly memory: ResponseMemory;
  /** The room of the event is given back: its reader takes it anew. */
  readonly onRead: () => void;
}

/** One event of a client as a request of the same path: what a WebSocket asks is answered as over HTTP. */
export class TurnExchange implements HostExchange {
  readonly method = 'POST';
  readonly query = '';
  path: string;
  readonly peer: string | undefined;
  readonly headerLines: number;
  readonly sink: TurnSink;
  readonly memory: ResponseMemory;
  readonly #parts: TurnParts;

  constructor(parts: TurnParts) {
    const { request, sink, memory } = parts;
    this.#parts = parts;
    this.path = pathOf(request.url ?? '/');
    this.peer = request.socket.remoteAddress;
    this.headerLines = request.rawHeaders.length / 2;
    this.sink = sink;
    this.memory = memory;
  }

  get scheme(): 'ws' | 'wss' {
    return schemeOf(this.#parts.request) === 'https' ? 'wss' : 'ws';
  }

  headerNames(): readonly string[] {
    return [...Object.keys(this.#parts.request.headers).filter((name) => !isOfTheSocket(name)), 'content-type'];
  }

  header(name: string): string | undefined {
    if (name === 'content-type') return 'application/json';
    if (name === 'authorization') return shownAuthorization(this.#parts.request);
    if (isOfTheSocket(name)) return undefined;
    const value = this.#parts.request.headers[name];
    return typeof value === 'string' ? value : value?.[0];
  }

  async readBody(intake: BodyIntake): Promise<void> {
    const { event, onRead } = this.#parts;
    onRead();
    intake.expect(event.length);
    intake.add(event);
  }
}

/** The path of a target, without scheme, host and query. */
export function pathOf(target: string): string {
  const path = target.startsWith('/') || !URL.canParse(target) ? target : new URL(target).pathname;
  const mark = path.indexOf('?');
  return mark < 0 ? path : path.slice(0, mark);
}
