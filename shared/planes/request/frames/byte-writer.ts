import { FRAME_HEADER_BYTES, type FrameTypeCode, writeFrameHeader } from './frame.ts';

const BYTES_MIN = 512;
const BYTES_KEPT = 256 << 10;

/** Bytes put together for one write. Grows by doubling; keeps at most 256 KiB when emptied. */
export class ByteWriter {
  bytes = Buffer.allocUnsafeSlow(BYTES_MIN);
  length = 0;

  /** Room for `count` more bytes; returns where they start. The caller fills them. */
  reserve(count: number): number {
    const at = this.length;
    const needed = at + count;
    if (needed > this.bytes.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.bytes.length));
      this.bytes.copy(grown, 0, 0, at);
      this.bytes = grown;
    }
    this.length = needed;
    return at;
  }

  /** Appends a whole frame. */
  frame(type: FrameTypeCode, flags: number, streamId: number, payload: Uint8Array): void {
    const at = this.reserve(FRAME_HEADER_BYTES + payload.length);
    writeFrameHeader(this.bytes, at, payload.length, type, flags, streamId);
    this.bytes.set(payload, at + FRAME_HEADER_BYTES);
  }

  /** Moves everything behind what `target` holds and empties this writer. */
  moveTo(target: ByteWriter): void {
    if (this.length === 0) return;
    const at = target.reserve(this.length);
    this.bytes.copy(target.bytes, at, 0, this.length);
    this.empty();
  }

  /** Forgets the contents and keeps the memory. */
  empty(): void {
    this.length = 0;
    if (this.bytes.length > BYTES_KEPT) this.replace();
  }

  /** Forgets the contents and leaves the memory to whoever still reads it. */
  replace(): void {
    this.length = 0;
    this.bytes = Buffer.allocUnsafeSlow(BYTES_MIN);
  }
}
