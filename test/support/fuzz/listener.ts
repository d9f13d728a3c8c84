import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { waitUntil } from '../wait-until.ts';
import type { HostileValues } from './hostile-values.ts';
import { answersOf, type WireAnswer } from './wire-answers.ts';

/**
 * Time for a server to close a connection. A refused client that keeps its end has two seconds; the rest allows for a
 * busy machine.
 */
export const GONE_MS_MAX = 8000;
/** Time that exceeds the wait of every listener for a first byte, and the interval of its search for late clients. */
export const SILENT_MS_MAX = 60_000;
const KNOCK_MS = 50;

/** A listener of the product that hostile clients attack. */
export interface Listener {
  readonly name: string;
  /**
   * Plays a case that `values` draw, sometimes with an honest client beside it.
   * @throws Error that says what was wrong with the answer
   */
  play(values: HostileValues): Promise<void>;
  /**
   * Sends an honest request on a connection of its own.
   * @throws Error if the answer is not the usual one
   */
  ask(): Promise<void>;
  /**
   * Waits until the server has closed every connection on which the client said nothing.
   * @throws Error if it does not close one in time
   */
  untilSilentAreGone(): Promise<void>;
}

/** A connection that this side never ends, and the bytes that it received. */
export class LazyClient {
  readonly socket: Socket;
  isEnded = false;
  isClosed = false;
  heardAtMs = performance.now();
  readonly #chunks: Buffer[] = [];

  constructor(port: number) {
    this.socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    this.socket
      .on('data', (chunk: Buffer) => {
        this.#chunks.push(chunk);
        this.heardAtMs = performance.now();
      })
      .on('end', () => {
        this.isEnded = true;
      })
      .on('close', () => {
        this.isClosed = true;
      })
      .on('error', () => {}); // a reset is a way to close
  }

  async send(pieces: readonly Buffer[]): Promise<void> {
    for (const piece of pieces) {
      if (this.socket.writable) this.socket.write(piece);
      if (pieces.length > 1) await sleep(1);
    }
  }

  get isOver(): boolean {
    return this.isEnded || this.isClosed;
  }

  get answers(): readonly WireAnswer[] {
    return answersOf(this.bytes);
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  get text(): string {
    return this.bytes.toString('latin1');
  }

  /** Resolves when the server has forgotten the connection, so that it answers new bytes with a reset. */
  async untilGone(timeoutMs: number): Promise<void> {
    await waitUntil(
      () => {
        if (this.socket.writable) this.socket.write('x');
        return this.isClosed;
      },
      { timeoutMs, pollMs: KNOCK_MS, what: 'the server to close the connection' },
    );
  }
}
