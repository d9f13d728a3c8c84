import { type IncomingMessage, ServerResponse } from 'node:http';
import type { WebSocketServer } from 'ws';
import type { Clock, Random } from '../../../clock/index.ts';
import { networkOf } from '../../../concurrency/index.ts';
import { type LimitName, loadCode, openAiErrorBody, overLimit, ServeError } from '../../../errors/index.ts';
import type { MemoryResponseStore } from '../../../responses/index.ts';
import type { HttpApp } from '../../http/app.ts';
import type { Connections } from '../connections.ts';
import { NodeExchange } from '../node-exchange.ts';
import { refuseUnroutable } from '../unparsable.ts';
import { ResponseSocket } from './response-socket.ts';
import { createSocketMemories, SocketMemory } from './socket-memory.ts';
import { agreedProtocol, shownAuthorization } from './turn-exchange.ts';

interface ResponseSocketsDeps {
  readonly app: HttpApp;
  readonly connections: Connections;
  readonly clock: Clock;
  readonly socketsMax: number;
  readonly random: Random;
  readonly onLimit: (limit: LimitName) => void;
  /** Called with the number of open WebSockets. */
  readonly onSockets: (count: number) => void;
}

/** The WebSockets of one server. */
export class ResponseSockets {
  readonly #deps: ResponseSocketsDeps;
  readonly #open = new Map<ResponseSocket, string>(); // with the network that each comes from
  readonly #memories: MemoryResponseStore;
  #server: Promise<WebSocketServer> | undefined;
  #isDraining = false;
  #onEmpty: (() => void)[] = [];

  constructor(deps: ResponseSocketsDeps) {
    this.#deps = deps;
    this.#memories = createSocketMemories(deps.clock, deps.onLimit);
  }

  /** Takes over a connection whose request asks for a WebSocket. Never rejects. */
  async accept(request: IncomingMessage, head: Buffer): Promise<void> {
    const { app, connections, random } = this.#deps;
    const { socket } = request;
    socket.on('error', () => socket.destroy());
    if (!connections.upgraded(socket)) {
      socket.destroy(); // responses are under way on it and would be cut in two
      return;
    }
    const shown = shownAuthorization(request);
    if (shown !== undefined) request.headers.authorization = shown;
    const answer = answerOn(request, () => connections.refuse(socket));
    try {
      if (refuseUnroutable(request, answer, random)) return;
      if (!(await app.sockets.admit(new NodeExchange(request, answer)))) return;
      const server = await this.load(); // before a place is taken, because other requests may come meanwhile
      if (!this.#makeRoom(networkOf(socket))) {
        refuse(answer, overLimit('websockets', `${this.#deps.socketsMax} WebSockets are open; try again`), RETRY);
        return;
      }
      answer.detachSocket(socket);
      server.handleUpgrade(request, socket, head, (webSocket) => this.#opened(webSocket, request));
    } catch {
      socket.destroy(); // the connection was lost meanwhile
    }
  }

  /** Ends each connection after its response, and idle ones at once. */
  drain(): void {
    this.#isDraining = true;
    for (const socket of this.#open.keys()) socket.endOnceIdle('drain');
  }

  /** Resolves when no WebSocket is open, or after `deadlineMs`. */
  gone(deadlineMs: number): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = this.#deps.clock.after(deadlineMs, resolve);
      this.#onEmpty.push(() => {
        timer.cancel();
        resolve();
      });
    });
  }

  /** Loads the WebSocket library, which otherwise the first WebSocket loads. */
  load(): Promise<WebSocketServer> {
    this.#server ??= loadCode('WebSockets', () => import('ws')).then(({ WebSocketServer }) => {
      const server = new WebSocketServer({
        noServer: true,
        clientTracking: false,
        perMessageDeflate: false, // messages that unpack to megabytes would need a bound, too
        maxPayload: this.#deps.app.sockets.messageBytesMax,
        autoPong: false,
        handleProtocols: agreedProtocol,
      });
      server.on('wsClientError', (error, _socket, request) => {
        const answer = answerOn(request, () => this.#deps.connections.refuse(request.socket));
        refuse(answer, new ServeError('invalid_value', error.message), { 'sec-websocket-version': '13' });
      });
      return server;
    });
    return this.#server;
  }

  #opened(webSocket: import('ws').WebSocket, request: IncomingMessage): void {
    const { app, clock, random, onLimit, onSockets } = this.#deps;
    const memory = new SocketMemory(this.#memories, random.uuid());
    const socket = new ResponseSocket({ app, webSocket, request, memory, clock, onLimit });
    this.#open.set(socket, networkOf(request.socket));
    onSockets(this.#open.size);
    webSocket.once('close', () => {
      this.#open.delete(socket);
      onSockets(this.#open.size);
      if (this.#open.size > 0) return;
      for (const tell of this.#onEmpty.splice(0)) tell();
    });
    if (this.#isDraining) socket.endOnceIdle('drain');
  }

  /**
   * Returns whether an address may open one more. At the bound, the address with the most connections gives up an idle
   * one.
   */
  #makeRoom(address: string): boolean {
    if (this.#open.size < this.#deps.socketsMax) return true;
    this.#deps.onLimit('websockets');
    const counts = new Map<string, number>();
    for (const from of this.#open.values()) counts.set(from, (counts.get(from) ?? 0) + 1);
    const [most, count] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a));
    if (count <= (counts.get(address) ?? 0) + 1) return false;
    const idle = [...this.#open].filter(([socket, from]) => from === most && socket.isIdle).map(([socket]) => socket);
    const longest = idle.sort((a, b) => a.idleSinceMs - b.idleSinceMs)[0];
    longest?.endOnceIdle('room');
    if (longest !== undefined) this.#open.delete(longest);
    return longest !== undefined;
  }
}

const RETRY = { 'retry-after': '1' };

/** Returns a response for a request that does not become a WebSocket. @param onSent runs when the answer has left */
function answerOn(request: IncomingMessage, onSent: () => void): ServerResponse {
  const answer = new ServerResponse(request);
  answer.shouldKeepAlive = false;
  answer.assignSocket(request.socket);
  answer.once('finish', onSent);
  return answer;
}

function refuse(answer: ServerResponse, error: ServeError, headers: Readonly<Record<string, string>>): void {
  const text = JSON.stringify(openAiErrorBody(error));
  const length = Buffer.byteLength(text);
  answer
    .writeHead(error.status, { 'content-type': 'application/json', 'content-length': length, ...headers })
    .end(text);
}
