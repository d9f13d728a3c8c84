import type { RequestPlaneObserver } from '../observer.ts';
import type { ByteChannel } from './byte-channel.ts';
import { ByteWriter } from './byte-writer.ts';
import { type ConnectionSettings, outboundBytesMax } from './settings.ts';

/**
 * Everything a connection sends in one turn of the event loop, written at once. Nothing is written while the socket's own
 * buffer is full: what is made meanwhile waits here, so that its owner can see and bound it.
 */
export class Outbox {
  readonly waiting = new ByteWriter();
  readonly #socket: ByteChannel;
  readonly #observer: RequestPlaneObserver;
  readonly #beforeWrite: (() => void) | undefined;
  #isScheduled = false;
  #isBlocked: boolean;

  /** `isBlocked` holds everything back until `unblock`, e.g. until the socket is connected. */
  constructor(socket: ByteChannel, observer: RequestPlaneObserver, isBlocked: boolean, beforeWrite?: () => void) {
    this.#socket = socket;
    this.#observer = observer;
    this.#isBlocked = isBlocked;
    this.#beforeWrite = beforeWrite;
  }

  get isBlocked(): boolean {
    return this.#isBlocked;
  }

  /** Bytes not yet taken by the kernel. */
  get pendingBytes(): number {
    return this.waiting.totalBytes + this.#socket.writableLength;
  }

  /** Whether so much waits for a peer that does not read that the connection must go: callers bound all else before this. */
  isOverfull(settings: ConnectionSettings, moreBytes = 0): boolean {
    return this.#isBlocked && this.pendingBytes + moreBytes > outboundBytesMax(settings) + settings.frameBytesMax;
  }

  /** Writes at the end of this turn. */
  schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // setImmediate rather than a microtask: it runs after every socket that is readable now, so the requests of several
    // clients, or the tokens of one engine step that arrive over several streams, leave in one write.
    setImmediate(this.#flushScheduled);
  }

  unblock(): void {
    this.#isBlocked = false;
    this.flush();
  }

  flush(): void {
    if (this.#isBlocked || this.#socket.destroyed) return;
    this.#beforeWrite?.();
    const { waiting } = this;
    const { totalBytes } = waiting;
    if (totalBytes === 0) return;
    this.#observer.bytesSent(totalBytes);
    let hasRoom = true;
    for (const piece of waiting.pieces()) hasRoom = this.#socket.write(piece);
    if (this.#socket.writableLength === 0) {
      waiting.empty(); // the kernel took it all: the memory is ours again
      return;
    }
    waiting.replace();
    this.#isBlocked = !hasRoom; // 'drain' follows
  }

  readonly #flushScheduled = (): void => {
    this.#isScheduled = false;
    this.flush();
  };
}
