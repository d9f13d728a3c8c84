import { ComingBytes } from '../records/index.ts';
import { GrpcStatus, STATUS } from './status.ts';

/** Length of the prefix of each message: one byte that says whether it is compressed, and four for its length. */
export const PREFIX_BYTES = 5;

const NOTHING = Buffer.alloc(0);

/** Smallest buffer for bytes that wait. A larger buffer has twice their length. */
const ROOM_BYTES_MIN = 256;

/**
 * Joins the chunks of a stream into messages. A message within one chunk is a view of the chunk. Any other message is
 * copied as its parts arrive, so that many small parts take little more memory than their bytes.
 */
export class MessageFrames {
  readonly #bytesMax: number;
  /** Holds the bytes not yet read, from `#from` to `#to`: the last chunk, or a buffer made here (`#isOwnRoom`). */
  #room: Buffer = NOTHING;
  #from = 0;
  #to = 0;
  #isOwnRoom = false;
  /** The message that has arrived in part, with its prefix; undefined between messages. */
  #coming: ComingBytes | undefined;

  /** @param bytesMax largest message */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Whether no part of a message waits here. */
  get isEmpty(): boolean {
    return this.#coming === undefined && this.#from === this.#to;
  }

  /** Bytes that have arrived and are not part of a message that `next` has returned. */
  get heldBytes(): number {
    return this.#to - this.#from + (this.#coming?.length ?? 0);
  }

  add(chunk: Buffer): void {
    const taken = this.#coming?.take(chunk) ?? 0;
    if (taken === chunk.length) return;
    if (this.#from === this.#to) this.#become(taken === 0 ? chunk : chunk.subarray(taken));
    else this.#append(chunk, taken);
  }

  /**
   * Returns the next message; undefined until it is whole.
   * @throws GrpcStatus if the message is too long or compressed
   */
  next(): Buffer | undefined {
    const coming = this.#coming;
    if (coming !== undefined) {
      if (!coming.isWhole) return undefined;
      this.#coming = undefined;
      return coming.bytes.subarray(PREFIX_BYTES, coming.wanted);
    }
    const length = this.#to - this.#from;
    if (length < PREFIX_BYTES) return undefined;
    const from = this.#from;
    const wanted = PREFIX_BYTES + this.#lengthOf(this.#room.subarray(from, from + PREFIX_BYTES));
    if (length < wanted) {
      this.#coming = new ComingBytes(wanted);
      this.#coming.take(this.#room.subarray(from, this.#to));
      this.#become(NOTHING);
      return undefined;
    }
    const message = this.#room.subarray(from + PREFIX_BYTES, from + wanted);
    this.#from += wanted;
    if (this.#from === this.#to) this.#become(NOTHING);
    return message;
  }

  /**
   * Copies the bytes that wait, if they are still a view, because a view of a few bytes keeps its whole chunk in
   * memory.
   */
  keep(): void {
    if (this.#from < this.#to && !this.#isOwnRoom) this.#append(NOTHING, 0);
  }

  /** Drops all bytes. */
  clear(): void {
    this.#coming = undefined;
    this.#become(NOTHING);
  }

  #become(chunk: Buffer): void {
    this.#room = chunk;
    this.#from = 0;
    this.#to = chunk.length;
    this.#isOwnRoom = false;
  }

  /** Appends the bytes of `chunk` from `at` on to those that wait. Views that `next` has returned stay as they are. */
  #append(chunk: Buffer, at: number): void {
    const waiting = this.#to - this.#from;
    const more = chunk.length - at;
    if (!this.#isOwnRoom || this.#to + more > this.#room.length) {
      const isKept = more === 0;
      const room = Buffer.allocUnsafeSlow(isKept ? waiting : Math.max(2 * (waiting + more), ROOM_BYTES_MIN));
      this.#room.copy(room, 0, this.#from, this.#to);
      this.#become(room);
      this.#to = waiting;
      this.#isOwnRoom = true;
    }
    chunk.copy(this.#room, this.#to, at);
    this.#to += more;
  }

  #lengthOf(prefix: Buffer): number {
    const length = prefix.readUInt32BE(1);
    if (length > this.#bytesMax) {
      const message = `Received message larger than max (${length} vs ${this.#bytesMax})`;
      throw new GrpcStatus(STATUS.RESOURCE_EXHAUSTED, message);
    }
    if (prefix[0] !== 0) throw new GrpcStatus(STATUS.UNIMPLEMENTED, 'Compressed messages are not supported');
    return length;
  }
}

/** Returns a message with its prefix, as it is sent. */
export function framed(message: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
  bytes[0] = 0;
  bytes.writeUInt32BE(message.length, 1);
  bytes.set(message, PREFIX_BYTES);
  return bytes;
}
