import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Clock } from '../../clock/index.ts';
import { connectionArrived } from '../../concurrency/index.ts';
import { endRefused, LINGER_REFUSED_MS } from '../../fleet/index.ts';

/**
 * Bound of the time to read the rest of a refused request, in units of `LINGER_REFUSED_MS`, even if the client never
 * pauses.
 */
const REST_LOOKS_MAX = 10;

interface Connection {
  /**
   * Responses that have not completely left, in the order of their requests. Bytes that arrive meanwhile are bodies of
   * these requests.
   */
  readonly responses: Set<ServerResponse>;
  hasServed: boolean;
  /** Bytes that the socket had read when its last response had left. */
  readBefore: number;
}

/**
 * The connections of a server, and their responses that have not completely left. Node's own `close` considers a
 * response over once the app has ended it, and cuts off what a slow client has not read yet.
 *
 * | Connection | `retire` | its last response has left, later | `closeFresh` |
 * |---|---|---|---|
 * | fresh: no request came yet | stays, to learn from a 503 that it must go elsewhere | - | closed |
 * | idle after a response | closed | - | - |
 * | with responses under way | the last of them says `connection: close`, unless it has begun | ended, until the client ends it too | stays |
 *
 * A refused client leaves by itself or is cut off: it must not keep a descriptor that others need.
 *
 * Bounded by the connections of the server.
 */
export class Connections {
  readonly #sockets = new Set<Socket>(); // including TLS connections before their handshake
  readonly #connections = new Map<Socket, Connection>();
  readonly #watchers = new Set<() => void>();
  readonly #clock: Clock;
  #isRetiring = false;

  constructor(server: Server, clock: Clock) {
    this.#clock = clock;
    server.on('connection', (socket: Socket) => {
      connectionArrived();
      this.#sockets.add(socket);
      socket.once('close', () => {
        this.#sockets.delete(socket);
        this.#changed();
      });
    });
    server.on(server instanceof TlsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
      this.#connections.set(socket, { responses: new Set(), hasServed: false, readBefore: 0 });
      socket.once('close', () => {
        this.#connections.delete(socket);
        this.#changed();
      });
    });
  }

  /** Registers the response to a request. Returns false if its connection accepts no more responses. */
  opened(response: ServerResponse): boolean {
    const { socket } = response.req;
    const connection = this.#connections.get(socket);
    if (connection === undefined || socket.writableEnded) return false;
    connection.hasServed = true;
    connection.responses.add(response);
    if (this.#isRetiring) response.shouldKeepAlive = false;
    response.once('close', () => {
      connection.responses.delete(response);
      connection.readBefore = socket.bytesRead;
      if (!response.req.complete) this.#awaitRest(response.req);
      if (this.#isRetiring && connection.responses.size === 0) socket.end();
      this.#changed();
    });
    return true;
  }

  /** Removes a connection that leaves HTTP. Returns false if responses are under way on it, or it has gone. */
  upgraded(socket: Socket): boolean {
    const connection = this.#connections.get(socket);
    if (connection === undefined || connection.responses.size > 0) return false;
    this.#connections.delete(socket);
    return true;
  }

  /** Whether requests can arrive on a socket. On a TLS socket they cannot before its handshake. */
  has(socket: Socket): boolean {
    return this.#connections.has(socket);
  }

  /** Responses that have not completely left. */
  get responses(): readonly ServerResponse[] {
    return [...this.#connections.values()].flatMap(({ responses }) => [...responses]);
  }

  /** Closes idle connections at once, and each of the others with the last response that it has under way. */
  retire(): void {
    this.#isRetiring = true;
    for (const [socket, { responses, hasServed }] of this.#connections) {
      const last = [...responses].at(-1);
      if (last !== undefined && !last.headersSent) last.shouldKeepAlive = false;
      if (last === undefined && hasServed) socket.destroy();
    }
  }

  /** Closes the connections on which no request came yet. */
  closeFresh(): void {
    for (const [socket, { hasServed }] of this.#connections) if (!hasServed) socket.destroy();
  }

  /**
   * Bounds the bytes of incomplete heads, of all connections together. One head may have half a megabyte, and is kept
   * until it is complete or late. Beyond the bound the connections with the most of these bytes are closed.
   * @param onClosed runs for each of them
   */
  boundHeads(bytesMax: number, onClosed: () => void): void {
    const waiting = [...this.#connections]
      .filter(([, { responses }]) => responses.size === 0)
      .map(([socket, { readBefore }]) => ({ socket, bytes: socket.bytesRead - readBefore }));
    let sum = waiting.reduce((total, { bytes }) => total + bytes, 0);
    if (sum <= bytesMax) return;
    for (const { socket, bytes } of waiting.sort((a, b) => b.bytes - a.bytes)) {
      if (sum <= bytesMax) return;
      socket.destroy();
      onClosed();
      sum -= bytes;
    }
  }

  /** Returns the responses of a connection that have not completely left, in the order of their requests. */
  responsesOf(socket: Socket): readonly ServerResponse[] {
    return [...(this.#connections.get(socket)?.responses ?? [])];
  }

  /** Ends a refused connection after its last bytes. */
  refuse(socket: Socket, last?: Uint8Array): void {
    endRefused(socket, this.#clock, last);
  }

  destroy(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Resolves when every response has left the process, or after `deadlineMs`. */
  idle(deadlineMs: number): Promise<void> {
    return this.#until(
      () => [...this.#connections.values()].every(({ responses }) => responses.size === 0),
      deadlineMs,
    );
  }

  /** Resolves when no connection is left, or after `deadlineMs`. */
  gone(deadlineMs: number): Promise<void> {
    return this.#until(() => this.#sockets.size === 0, deadlineMs);
  }

  /**
   * Reads and drops the rest of a request whose response has already left, because the rest is not needed. Clients that
   * send everything before they read thus still get the response. A client that pauses, or takes too long, is cut off.
   */
  #awaitRest(request: IncomingMessage): void {
    const { socket } = request;
    let read = socket.bytesRead;
    let looks = 0;
    const timer = this.#clock.every(LINGER_REFUSED_MS, () => {
      if (request.complete) stop();
      else if (socket.bytesRead === read || ++looks >= REST_LOOKS_MAX) socket.destroy();
      read = socket.bytesRead;
    });
    const stop = (): void => {
      timer.cancel();
      socket.off('close', stop); // a connection may have any number of refused requests
    };
    socket.once('close', stop);
    request.once('close', stop); // the rest has come, or its connection is over
  }

  #until(holds: () => boolean, deadlineMs: number): Promise<void> {
    if (holds()) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        timer.cancel();
        this.#watchers.delete(look);
        resolve();
      };
      const look = (): void => {
        if (holds()) end();
      };
      const timer = this.#clock.after(deadlineMs, end);
      this.#watchers.add(look);
    });
  }

  #changed(): void {
    for (const look of this.#watchers) look();
  }
}
