import type { ServerHttp2Stream } from 'node:http2';
import { MessageFrames } from './message-frames.ts';
import { GrpcStatus, STATUS } from './status.ts';

/** Room for messages that have not been handed out, in bytes, of all calls together. */
export interface MessageRoom {
  /** @throws what ends the call for which there is no room */
  take(bytes: number): void;
  give(bytes: number): void;
}

/** Room of a server's own. */
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
  /** Of one message. */
  readonly bytesMax: number;
  readonly room: MessageRoom;
  /** More has come, or the last. */
  readonly onArrival: () => void;
}

/**
 * What comes on a stream. Node hands on what a client sends as far as its window goes, asked or not, and keeps it piece by piece:
 * a million pieces of a byte each. So none of it waits in the stream's own buffer: what comes is put together here at once, and counts.
 *
 * | | what comes | the client's window |
 * |---|---|---|
 * | paused, as at first | is kept | is not opened again |
 * | resumed | is kept | is opened by as much as comes |
 * | discarding | is let go of | is opened by as much as comes |
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
    stream._read = () => {}; // reading what came before anybody looked would open the window
    const early = stream.read() as Buffer | null;
    if (early !== null) this.#frames.add(early);
    const { push } = stream;
    stream.push = (chunk: Buffer | null) => (chunk === null ? push.call(stream, null) : this.#arrived(chunk));
    stream.once('end', () => {
      this.#isEnded = true;
      this.#onArrival();
    });
  }

  /** The client says nothing more. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Nothing of a message is here. */
  get isEmpty(): boolean {
    return this.#frames.isEmpty;
  }

  get heldBytes(): number {
    return this.#frames.heldBytes;
  }

  /** As `MessageFrames.next`. */
  next(): Buffer | undefined {
    return this.#frames.next();
  }

  /**
   * Counts what is here, once all that is wanted of it was handed out.
   * @throws what `MessageRoom.take` throws; everything was let go of then
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

  /** What comes from here on stays in the client's window. */
  pause(): void {
    this.#isReading = false;
  }

  resume(): void {
    if (this.#isReading) return;
    this.#isReading = true;
    this.#openWindow.call(this.#stream, 0);
  }

  /** Lets go of what is here. */
  clear(): void {
    this.#frames.clear();
    this.#give(this.#takenBytes);
  }

  /** What comes from here on is for nobody. @param onDiscarded hears how many bytes that are */
  discard(onDiscarded: (bytes: number) => void): void {
    this.clear();
    this.#onDiscarded = onDiscarded;
    this.resume();
  }

  /** Whether the window is opened again by what has come. */
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
