import type { Server, ServerResponse } from 'node:http';
import { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Clock } from '../../clock/index.ts';

interface Connection {
  /** Answers that have not wholly left, in the order of their requests. */
  readonly responses: Set<ServerResponse>;
  hasServed: boolean;
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
 * Bounded by the connections of the server.
 */
export class Connections {
  readonly #sockets = new Set<Socket>(); // those of TLS before their handshake, too
  readonly #connections = new Map<Socket, Connection>();
  readonly #watchers = new Set<() => void>();
  #isRetiring = false;

  constructor(server: Server) {
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => {
        this.#sockets.delete(socket);
        this.#changed();
      });
    });
    server.on(server instanceof TlsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
      this.#connections.set(socket, { responses: new Set(), hasServed: false });
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
      if (this.#isRetiring && connection.responses.size === 0) socket.end();
      this.#changed();
    });
    return true;
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

  destroy(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Resolves when every response has left the process, or after `deadlineMs`. */
  idle(clock: Clock, deadlineMs: number): Promise<void> {
    return this.#until(
      () => [...this.#connections.values()].every(({ responses }) => responses.size === 0),
      clock,
      deadlineMs,
    );
  }

  /** Resolves when no connection is left, or after `deadlineMs`. */
  gone(clock: Clock, deadlineMs: number): Promise<void> {
    return this.#until(() => this.#sockets.size === 0, clock, deadlineMs);
  }

  #until(holds: () => boolean, clock: Clock, deadlineMs: number): Promise<void> {
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
      const timer = clock.after(deadlineMs, end);
      this.#watchers.add(look);
    });
  }

  #changed(): void {
    for (const look of this.#watchers) look();
  }
}
