import { ComingBytes } from '../records/index.ts';
import { GrpcStatus, STATUS } from './status.ts';

/** Before each message: a byte that says whether it is compressed, and its length in four. */
export const PREFIX_BYTES = 5;

const NOTHING = Buffer.alloc(0);

/** Room that is made for what waits: at least so much, and twice what there is. */
const ROOM_BYTES_MIN = 256;

/**
 * Puts messages together from chunks of a stream. One that lies within a chunk is a view of it; another is copied as it comes,
 * so that however small its parts are, they take no more memory than they have bytes, about.
 */
export class MessageFrames {
  readonly #bytesMax: number;
  /** What has come and was not looked at yet: from `#from` to `#to` of a chunk, or of room of our own. */
  #room: Buffer = NOTHING;
  #from = 0;
  #to = 0;
  #isOwnRoom = false;
  /** The message that is coming, with its prefix; undefined between messages. */
  #coming: ComingBytes | undefined;

  /** @param bytesMax of one message */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Nothing of a message was left behind. */
  get isEmpty(): boolean {
    return this.#coming === undefined && this.#from === this.#to;
  }

  /** Bytes that have come and were not handed out. */
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
   * The next message that is whole; undefined until it is.
   * @throws GrpcStatus for one that is too long or compressed
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

  /** What waits is copied, unless it is already: a view of a few bytes would keep all that came with them. */
  keep(): void {
    if (this.#from < this.#to && !this.#isOwnRoom) this.#append(NOTHING, 0);
  }

  /** Lets go of everything. */
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

  /** Puts what is in `chunk` from `at` on behind what waits. Views that were handed out keep what they show. */
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

/** A message behind its prefix, as it leaves. */
export function framed(message: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
  bytes[0] = 0;
  bytes.writeUInt32BE(message.length, 1);
  bytes.set(message, PREFIX_BYTES);
  return bytes;
}
