import { GrpcStatus, STATUS } from './status.ts';

/** Before each message: a byte that says whether it is compressed, and its length in four. */
export const PREFIX_BYTES = 5;

/** Puts messages together from chunks of a stream. Nothing is allocated by a stated length. */
export class MessageFrames {
  readonly #bytesMax: number;
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Of the message that is coming, with its prefix; 0 until its prefix is there. */
  #wanted = 0;

  /** @param bytesMax of one message */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Nothing of a message was left behind. */
  get isEmpty(): boolean {
    return this.#bytes === 0;
  }

  add(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
  }

  /**
   * The next message that is whole; undefined until it is.
   * @throws GrpcStatus for one that is too long or compressed
   */
  next(): Buffer | undefined {
    if (this.#wanted === 0) {
      if (this.#bytes < PREFIX_BYTES) return undefined;
      this.#wanted = PREFIX_BYTES + this.#lengthOfNext();
    }
    if (this.#bytes < this.#wanted) return undefined;
    const all = this.#joined(this.#wanted);
    const message = all.subarray(PREFIX_BYTES, this.#wanted);
    const rest = all.subarray(this.#wanted);
    this.#chunks[0] = rest;
    if (rest.length === 0) this.#chunks.shift();
    this.#bytes -= this.#wanted;
    this.#wanted = 0;
    return message;
  }

  #lengthOfNext(): number {
    const prefix = this.#joined(PREFIX_BYTES);
    const length = prefix.readUInt32BE(1);
    if (length > this.#bytesMax) {
      const message = `Received message larger than max (${length} vs ${this.#bytesMax})`;
      throw new GrpcStatus(STATUS.RESOURCE_EXHAUSTED, message);
    }
    if (prefix[0] !== 0) throw new GrpcStatus(STATUS.UNIMPLEMENTED, 'Compressed messages are not supported');
    return length;
  }

  /** Its first chunk, once it holds `bytes` at least: what a message needs is copied once, when all of it is there. */
  #joined(bytes: number): Buffer {
    const first = this.#chunks[0]!; // callers know that there are so many bytes
    if (first.length >= bytes) return first;
    let count = 0;
    for (let length = 0; length < bytes; count++) length += this.#chunks[count]!.length;
    const joined = Buffer.concat(this.#chunks.slice(0, count));
    this.#chunks.splice(0, count, joined);
    return joined;
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
