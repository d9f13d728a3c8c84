import type { Server, ServerResponse } from 'node:http';
import { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Clock } from '../../clock/index.ts';

interface Connection {
  /** Answers that have not wholly left, in the order of their requests. */
  readonly answers: Set<ServerResponse>;
  hasServed: boolean;
}

/**
 * The connections of a server, and the answers on them that have not wholly left. Node's own `close` takes an answer for over
 * once the app has ended it, and cuts off what a slow client has not read yet.
 *
 * | Connection | `retire` | its last answer has left, later | `closeFresh` |
 * |---|---|---|---|
 * | fresh: nothing was asked yet | stays, to be told to go elsewhere | - | closed |
 * | idle after an answer | closed | - | - |
 * | with answers under way | the last of them says `connection: close`, unless it has begun | ended, until the client ends it too | stays |
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
      this.#connections.set(socket, { answers: new Set(), hasServed: false });
      socket.once('close', () => {
        this.#connections.delete(socket);
        this.#changed();
      });
    });
  }

  /** Takes note of a request that is to be answered. False when its connection takes no answers any more. */
  opened(answer: ServerResponse): boolean {
    const { socket } = answer.req;
    const connection = this.#connections.get(socket);
    if (connection === undefined || socket.writableEnded) return false;
    connection.hasServed = true;
    connection.answers.add(answer);
    if (this.#isRetiring) answer.shouldKeepAlive = false;
    answer.once('close', () => {
      connection.answers.delete(answer);
      if (this.#isRetiring && connection.answers.size === 0) socket.end();
      this.#changed();
    });
    return true;
  }

  /** Those that have not wholly left. */
  get answers(): readonly ServerResponse[] {
    return [...this.#connections.values()].flatMap(({ answers }) => [...answers]);
  }

  /** Closes each connection with the last answer that it has under way, and those that have none at once. */
  retire(): void {
    this.#isRetiring = true;
    for (const [socket, { answers, hasServed }] of this.#connections) {
      const last = [...answers].at(-1);
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

  /** Resolves when every answer has left the process, or after `deadlineMs`. */
  idle(clock: Clock, deadlineMs: number): Promise<void> {
    return this.#until(
      () => [...this.#connections.values()].every(({ answers }) => answers.size === 0),
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
