/** A chunk from here on is kept as it came; copying it would cost more than its own overhead. */
const LARGE_CHUNK_BYTES = 16 * 1024;
/** Small chunks are copied together into blocks of at most so many bytes. */
const BLOCK_BYTES_MAX = 1024 * 1024;
const BLOCK_BYTES_MIN = 4 * 1024;

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

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  add(chunk: Uint8Array): void {
    this.#sizeBytes += chunk.length;
    const isWholeSoFar = this.#sizeBytes === chunk.length;
    if (isWholeSoFar || chunk.length >= LARGE_CHUNK_BYTES) {
      this.#closeBlock();
      this.#parts.push(chunk);
    } else {
      if (chunk.length > this.#block.length - this.#filled) this.#openBlock(chunk.length);
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
