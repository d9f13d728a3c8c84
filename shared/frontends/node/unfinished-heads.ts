import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../../clock/index.ts';
import { LIMITS } from '../../errors/index.ts';

/** Node tells nobody of a head before it is whole, so it is looked for. */
const CHECK_MS = 500;

interface Connection {
  /** What the socket had read when its last response had left. */
  readBefore: number;
  /** Answers that have not wholly left: what is read meanwhile is their bodies. */
  responses: number;
}

/**
 * Bounds the heads that have not come whole, of all connections of a server together: each may have half a megabyte, and is
 * kept until it is whole or late. Beyond the bound the connections with the most of it are closed.
 */
export class UnfinishedHeads {
  readonly #connections = new Map<Socket, Connection>();
  readonly #bytesMax: number;
  readonly #onClosed: () => void;

  /** @param onClosed hears of each connection that is closed */
  constructor(onClosed: () => void, bytesMax: number = LIMITS.unfinished_heads_bytes.max) {
    this.#onClosed = onClosed;
    this.#bytesMax = bytesMax;
  }

  /** Looks every half a second, until what is returned is called. */
  watch(clock: Clock): () => void {
    const timer = clock.every(CHECK_MS, () => this.look());
    return () => timer.cancel();
  }

  opened(socket: Socket): void {
    this.#connections.set(socket, { readBefore: 0, responses: 0 });
    socket.once('close', () => this.#connections.delete(socket));
  }

  /** The head of a request has come whole. */
  responding(response: ServerResponse): void {
    const { socket } = response.req;
    const connection = this.#connections.get(socket);
    if (connection === undefined) return;
    connection.responses++;
    response.once('close', () => {
      connection.responses--;
      connection.readBefore = socket.bytesRead;
    });
  }

  /** Closes what is too much. */
  look(): void {
    let sum = 0;
    const waiting: { readonly socket: Socket; readonly bytes: number }[] = [];
    for (const [socket, { responses, readBefore }] of this.#connections) {
      const bytes = responses > 0 ? 0 : socket.bytesRead - readBefore;
      if (bytes <= 0) continue;
      sum += bytes;
      waiting.push({ socket, bytes });
    }
    if (sum <= this.#bytesMax) return;
    for (const { socket, bytes } of waiting.sort((a, b) => b.bytes - a.bytes)) {
      socket.destroy();
      this.#onClosed();
      sum -= bytes;
      if (sum <= this.#bytesMax) return;
    }
  }
}
