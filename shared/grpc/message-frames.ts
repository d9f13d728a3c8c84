import { ComingBytes } from '../records/index.ts';
import { GrpcStatus, STATUS } from './status.ts';

/** Before each message: a byte that says whether it is compressed, and its length in four. */
export const PREFIX_BYTES = 5;

const NOTHING = Buffer.alloc(0);

/**
 * Puts messages together from chunks of a stream. One that lies within a chunk is a view of it; another is copied as it comes,
 * so that however small its parts are, they take no more memory than they have bytes.
 */
export class MessageFrames {
  readonly #bytesMax: number;
  /** What has come and was not looked at yet. */
  #rest: Buffer = NOTHING;
  /** The message that is coming, with its prefix; undefined between messages. */
  #coming: ComingBytes | undefined;

  /** @param bytesMax of one message */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Nothing of a message was left behind. */
  get isEmpty(): boolean {
    return this.#coming === undefined && this.#rest.length === 0;
  }

  add(chunk: Buffer): void {
    if (this.#coming !== undefined) this.#rest = this.#take(chunk);
    else this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
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
    const rest = this.#rest;
    if (rest.length < PREFIX_BYTES) return undefined;
    const wanted = PREFIX_BYTES + this.#lengthOf(rest);
    if (rest.length >= wanted) {
      this.#rest = rest.length === wanted ? NOTHING : rest.subarray(wanted);
      return rest.subarray(PREFIX_BYTES, wanted);
    }
    this.#coming = new ComingBytes(wanted);
    this.#rest = this.#take(rest);
    return undefined;
  }

  /** Copies what the coming message wants of `chunk`; what is behind it. */
  #take(chunk: Buffer): Buffer {
    const taken = this.#coming!.take(chunk); // callers have one
    return taken === chunk.length ? NOTHING : chunk.subarray(taken);
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
