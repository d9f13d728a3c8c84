import type { ServerHttp2Stream } from 'node:http2';
import { MessageFrames } from './message-frames.ts';
import { GrpcStatus, STATUS } from './status.ts';

/** Memory for messages that no method has received yet, of all calls together, in bytes. */
export interface MessageRoom {
  /** Reserves `bytes`. @throws the error that ends the call if there is no room */
  take(bytes: number): void;
  /** Returns `bytes` that were reserved. */
  give(bytes: number): void;
}

/** A `MessageRoom` of one server. */
export class OwnRoom implements MessageRoom {
  readonly #bytesMax: number;
  #takenBytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  take(bytes: number): void {
    if (this.#takenBytes + bytes > this.#bytesMax) {
      throw new GrpcStatus(
        STATUS.RESOURCE_EXHAUSTED,
        'The messages that are being read fill the room for them; try again',
      );
    }
    this.#takenBytes += bytes;
  }

  give(bytes: number): void {
    this.#takenBytes -= bytes;
  }
}

interface MessageIntakeOptions {
  /** Bytes of the largest message. */
  readonly bytesMax: number;
  readonly room: MessageRoom;
  /** Called when more bytes have arrived, or the stream has ended. */
  readonly onArrival: () => void;
}

/**
 * Receives the bytes of one stream. Node buffers what a client sends within its window, even if no code reads it. It
 * keeps the bytes piece by piece, which can be up to a million pieces of one byte. So this class bypasses the stream's
 * own buffer: it joins the pieces as they arrive, and counts them.
 *
 * | | bytes that arrive | the client's window |
 * |---|---|---|
 * | paused, as at first | are kept | is not opened again |
 * | resumed | are kept | is opened by as much as arrives |
 * | discarding | are dropped | is opened by as much as arrives |
 */
export class MessageIntake {
  readonly #stream: ServerHttp2Stream;
  readonly #frames: MessageFrames;
  readonly #room: MessageRoom;
  readonly #onArrival: () => void;
  readonly #openWindow: (size: number) => void;
  #isReading = false;
  #isEnded = false;
  #takenBytes = 0;
  #onDiscarded: ((bytes: number) => void) | undefined;

  constructor(stream: ServerHttp2Stream, { bytesMax, room, onArrival }: MessageIntakeOptions) {
    this.#stream = stream;
    this.#frames = new MessageFrames(bytesMax);
    this.#room = room;
    this.#onArrival = onArrival;
    this.#openWindow = stream._read;
    stream._read = () => {}; // otherwise the read below would open the window
    const early = stream.read() as Buffer | null;
    if (early !== null) this.#frames.add(early);
    const { push } = stream;
    stream.push = (chunk: Buffer | null) => (chunk === null ? push.call(stream, null) : this.#arrived(chunk));
    stream.once('end', () => {
      this.#isEnded = true;
      this.#onArrival();
    });
  }

  /** Whether the client has ended its side of the stream. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Whether no part of a message waits here. */
  get isEmpty(): boolean {
    return this.#frames.isEmpty;
  }

  get heldBytes(): number {
    return this.#frames.heldBytes;
  }

  /** Returns the next message; undefined until it is whole. @throws GrpcStatus as `MessageFrames.next` does */
  next(): Buffer | undefined {
    return this.#frames.next();
  }

  /**
   * Adjusts the reserved room to the bytes that wait here. Call it after the method has received what it asked for.
   * @throws the error of `MessageRoom.take` if there is no room; all bytes have been dropped then
   */
  settle(): void {
    this.#frames.keep();
    const more = this.#frames.heldBytes - this.#takenBytes;
    if (more === 0) return;
    if (more < 0) {
      this.#give(-more);
      return;
    }
    try {
      this.#room.take(more);
      this.#takenBytes += more;
    } catch (thrown) {
      this.clear();
      throw thrown;
    }
  }

  /** Stops opening the client's window, so that the client stops sending when it is full. */
  pause(): void {
    this.#isReading = false;
  }

  /** Opens the client's window again by as much as arrives. */
  resume(): void {
    if (this.#isReading) return;
    this.#isReading = true;
    this.#openWindow.call(this.#stream, 0);
  }

  /** Drops the bytes that wait, and returns their room. */
  clear(): void {
    this.#frames.clear();
    this.#give(this.#takenBytes);
  }

  /** Drops everything that arrives from now on. @param onDiscarded called with the bytes of each dropped piece */
  discard(onDiscarded: (bytes: number) => void): void {
    this.clear();
    this.#onDiscarded = onDiscarded;
    this.resume();
  }

  /** Takes a piece that has arrived. Returns whether Node may open the client's window again by its length. */
  #arrived(chunk: Buffer): boolean {
    if (this.#onDiscarded !== undefined) {
      this.#onDiscarded(chunk.length);
      return true;
    }
    this.#frames.add(chunk);
    this.#onArrival();
    return this.#isReading;
  }

  #give(bytes: number): void {
    if (bytes === 0) return;
    this.#takenBytes -= bytes;
    this.#room.give(bytes);
  }
}
