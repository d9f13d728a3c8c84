/** A chunk from here on is kept as it came; copying it would cost more than its own overhead. */
const LARGE_CHUNK_BYTES = 16 * 1024;
/** Small chunks are copied together into blocks of at most so many bytes. */
const BLOCK_BYTES_MAX = 1024 * 1024;
const BLOCK_BYTES_MIN = 4 * 1024;

/** Room for a whole body is made once this part of it is there: who only announces megabytes gets none. */
const CERTAIN_PART = 0.25;

const NOTHING = new Uint8Array(0);

/**
 * The bytes of a body as they come. Small chunks are put together: kept one by one, a body in chunks of a byte would take
 * 200 times its size.
 */
export class BodyBytes {
  #parts: Uint8Array[] = [];
  /** Being filled; its first `#filled` bytes belong to the body. */
  #block = NOTHING;
  #filled = 0;
  #sizeBytes = 0;
  #announcedBytes = 0;

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** So many bytes are to come: a hint, by which the body need not be copied at its end. */
  announce(bytes: number): void {
    this.#announcedBytes = bytes;
  }

  add(chunk: Uint8Array): void {
    this.#sizeBytes += chunk.length;
    const fits = chunk.length <= this.#block.length - this.#filled;
    const isWholeSoFar = this.#sizeBytes === chunk.length;
    if (!fits && (isWholeSoFar || chunk.length >= LARGE_CHUNK_BYTES)) {
      this.#closeBlock();
      this.#parts.push(chunk);
      this.#makeRoom();
    } else {
      if (!fits) this.#openBlock(chunk.length);
      this.#block.set(chunk, this.#filled);
      this.#filled += chunk.length;
    }
  }

  /** Everything in one piece; what came in one chunk is not copied. Empties this. */
  take(): Uint8Array {
    this.#closeBlock();
    const parts = this.#parts;
    this.clear();
    return parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts);
  }

  clear(): void {
    this.#parts = [];
    this.#block = NOTHING;
    this.#filled = 0;
    this.#sizeBytes = 0;
  }

  /** Puts what is there into a block for the whole body. */
  #makeRoom(): void {
    const bytes = this.#announcedBytes;
    if (this.#sizeBytes >= bytes || this.#sizeBytes < bytes * CERTAIN_PART) return;
    const block = Buffer.allocUnsafeSlow(bytes);
    let filled = 0;
    for (const part of this.#parts) {
      block.set(part, filled);
      filled += part.length;
    }
    this.#parts = [];
    this.#block = block;
    this.#filled = filled;
  }

  #openBlock(bytesMin: number): void {
    this.#closeBlock();
    const bytes = Math.min(Math.max(this.#sizeBytes, BLOCK_BYTES_MIN), BLOCK_BYTES_MAX);
    this.#block = Buffer.allocUnsafeSlow(Math.max(bytes, bytesMin));
  }

  #closeBlock(): void {
    if (this.#filled > 0) this.#parts.push(this.#block.subarray(0, this.#filled));
    this.#block = NOTHING;
    this.#filled = 0;
  }
}
