import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Clock } from '../../clock/index.ts';
import { connectionArrived } from '../../concurrency/index.ts';
import { endRefused, LINGER_REFUSED_MS } from '../../fleet/index.ts';

/** Pauses or not, the rest of a refused request has so many times `LINGER_REFUSED_MS`. */
const REST_LOOKS_MAX = 10;

interface Connection {
  /** Answers that have not wholly left, in the order of their requests: what is read meanwhile is their bodies. */
  readonly responses: Set<ServerResponse>;
  hasServed: boolean;
  /** Bytes that the socket had read when its last response had left. */
  readBefore: number;
}

/**
 * The connections of a server, and the responses on them that have not wholly left. Node's own `close` takes a response for over
 * once the app has ended it, and cuts off what a slow client has not read yet.
 *
 * | Connection | `retire` | its last response has left, later | `closeFresh` |
 * |---|---|---|---|
 * | fresh: nothing was asked yet | stays, to be told to go elsewhere | - | closed |
 * | idle after a response | closed | - | - |
 * | with responses under way | the last of them says `connection: close`, unless it has begun | ended, until the client ends it too | stays |
 *
 * A client that is refused goes by itself or is cut off: it must not keep a descriptor that others need.
 *
 * Bounded by the connections of the server.
 */
export class Connections {
  readonly #sockets = new Set<Socket>(); // those of TLS before their handshake, too
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

  /** Takes note of a request that is to be answered. False when its connection takes no responses any more. */
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

  /** Takes a connection that leaves HTTP out of the requests; false when responses are under way on it, or it has gone. */
  upgraded(socket: Socket): boolean {
    const connection = this.#connections.get(socket);
    if (connection === undefined || connection.responses.size > 0) return false;
    this.#connections.delete(socket);
    return true;
  }

  /** Whether requests can come on a socket: not before its handshake, where there is one. */
  has(socket: Socket): boolean {
    return this.#connections.has(socket);
  }

  /** Those that have not wholly left. */
  get responses(): readonly ServerResponse[] {
    return [...this.#connections.values()].flatMap(({ responses }) => [...responses]);
  }

  /** Closes each connection with the last response that it has under way, and those that have none at once. */
  retire(): void {
    this.#isRetiring = true;
    for (const [socket, { responses, hasServed }] of this.#connections) {
      const last = [...responses].at(-1);
      if (last !== undefined && !last.headersSent) last.shouldKeepAlive = false;
      if (last === undefined && hasServed) socket.destroy();
    }
  }

  /** Closes the connections on which nothing was asked yet. */
  closeFresh(): void {
    for (const [socket, { hasServed }] of this.#connections) if (!hasServed) socket.destroy();
  }

  /**
   * Bounds the heads that have not come whole, of all connections together: each may have half a megabyte, and is kept until it
   * is whole or late. Beyond the bound the connections with the most of it are closed.
   * @param onClosed hears of each of them
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

  /** Responses of a connection that have not wholly left, in the order of their requests. */
  responsesOf(socket: Socket): readonly ServerResponse[] {
    return [...(this.#connections.get(socket)?.responses ?? [])];
  }

  /** Ends a connection that is refused with its last bytes. */
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
   * A response has left before its request was whole, since what follows is not wanted. It is read and dropped, so that clients
   * which send it first and read later hear the response; who stops sending, or takes too long, is cut off.
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
    request.once('close', stop); // it has come, or its connection is over
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
