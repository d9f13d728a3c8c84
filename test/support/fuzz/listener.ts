import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { waitUntil } from '../wait-until.ts';
import type { HostileValues } from './hostile-values.ts';
import { answersOf, type WireAnswer } from './wire-answers.ts';

/** A refused client that keeps its end has two seconds; others on the machine count. */
export const GONE_MS_MAX = 8000;
/** Longer than any listener waits for a first word, and looks for those that are late. */
export const SILENT_MS_MAX = 60_000;
const KNOCK_MS = 50;

/** A listener of the product under hostile clients. */
export interface Listener {
  readonly name: string;
  /**
   * Plays a case that `values` draw, with an honest client beside it now and then.
   * @throws Error that says what was wrong with what came back
   */
  play(values: HostileValues): Promise<void>;
  /** Serves an honest client on a connection of its own. @throws Error where it is not answered as ever */
  ask(): Promise<void>;
  /** Waits until those that have said nothing are let go of. @throws Error where one is not, in time */
  untilSilentAreGone(): Promise<void>;
}

/** A connection that is never ended from this side, and what came on it. */
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

  /** Resolves when the server holds nothing of the connection: what is sent to it is answered with a reset. */
  async untilGone(timeoutMs: number): Promise<void> {
    await waitUntil(
      () => {
        if (this.socket.writable) this.socket.write('x');
        return this.isClosed;
      },
      { timeoutMs, pollMs: KNOCK_MS, what: 'the connection to be let go of' },
    );
  }
}
