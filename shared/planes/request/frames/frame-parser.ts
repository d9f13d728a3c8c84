import { ComingBytes } from '../../../records/index.ts';
import { FRAME_HEADER_BYTES, FRAME_VERSION, FrameError, type FrameTypeCode, isFrameType, readU32 } from './frame.ts';
import { PeerFault, TLS_SPOKEN } from './peer-fault.ts';

/** Who reads the frames of one connection. */
export interface FrameReceiver {
  /**
   * One frame; its payload is `bytes[start .. end)`.
   * @param isKept nobody writes to `bytes` again; else the payload is only valid during the call
   */
  frame(
    type: FrameTypeCode,
    flags: number,
    streamId: number,
    bytes: Buffer,
    start: number,
    end: number,
    isKept: boolean,
  ): void;
  /** A frame longer than the limit. Its payload is skipped. */
  oversize(type: FrameTypeCode, streamId: number, payloadBytes: number): void;
}

// How a TLS connection begins.
const TLS_HANDSHAKE = 0x16;
const TLS_MAJOR = 3;
const HOLD_BYTES_MIN = 4096;
/** Frames up to this length are put together in the same memory. */
const HOLD_BYTES_MAX = 1 << 20;
const NOTHING = Buffer.alloc(0);

/**
 * Cuts a byte stream into frames under any chunking. A frame inside one chunk is handed on without copying; only one that
 * crosses chunks is put together in a buffer of the parser's own, which grows as bytes arrive, not as lengths promise. A large
 * frame has memory of its own, which is given away with it.
 */
export class FrameParser {
  /** Longest payload taken; longer frames are skipped and reported. */
  payloadBytesMax: number;
  readonly #receiver: FrameReceiver;
  #hold = NOTHING;
  #heldBytes = 0;
  /** The large frame that is coming. */
  #coming: ComingBytes | undefined;
  #skipBytes = 0;
  #isStopped = false;

  constructor(receiver: FrameReceiver, payloadBytesMax: number) {
    this.#receiver = receiver;
    this.payloadBytesMax = payloadBytesMax;
  }

  /** Reads no further: the connection is closed. May be called from inside a frame. */
  stop(): void {
    this.#isStopped = true;
    this.#hold = NOTHING;
    this.#heldBytes = 0;
    this.#coming = undefined;
  }

  /** Takes the next bytes of the stream. Throws `FrameError` for a header that no frame has, `PeerFault` for TLS. */
  push(chunk: Buffer): void {
    let at = 0;
    while (!this.#isStopped && at < chunk.length) {
      if (this.#skipBytes > 0) {
        const skipped = Math.min(this.#skipBytes, chunk.length - at);
        this.#skipBytes -= skipped;
        at += skipped;
      } else if (this.#coming !== undefined) {
        at += this.#add(this.#coming, chunk, at);
      } else if (this.#heldBytes > 0) {
        at = this.#fill(chunk, at);
      } else {
        at = this.#readInPlace(chunk, at);
      }
    }
  }

  /** Reads one frame at `at`, or holds what is there of it. Returns where reading goes on. */
  #readInPlace(chunk: Buffer, at: number): number {
    const left = chunk.length - at;
    if (left < FRAME_HEADER_BYTES) return this.#keep(chunk, at, chunk.length);
    if (this.#startSkip(chunk, at)) return at + FRAME_HEADER_BYTES;
    const frameBytes = FRAME_HEADER_BYTES + readU32(chunk, at);
    if (left < frameBytes) {
      if (frameBytes <= HOLD_BYTES_MAX) return this.#keep(chunk, at, chunk.length);
      return at + this.#add(new ComingBytes(frameBytes), chunk, at);
    }
    this.#deliver(chunk, at, frameBytes, false);
    return at + frameBytes;
  }

  /** Adds to the held frame and hands it on when complete. */
  #fill(chunk: Buffer, at: number): number {
    if (this.#heldBytes < FRAME_HEADER_BYTES) {
      const next = this.#keep(chunk, at, at + FRAME_HEADER_BYTES - this.#heldBytes);
      if (this.#heldBytes < FRAME_HEADER_BYTES) return next;
      if (this.#startSkip(this.#hold, 0)) this.#heldBytes = 0;
      else this.#deliverHeld();
      return next;
    }
    const next = this.#keep(chunk, at, at + FRAME_HEADER_BYTES + readU32(this.#hold, 0) - this.#heldBytes);
    this.#deliverHeld();
    return next;
  }

  #deliverHeld(): void {
    const frameBytes = FRAME_HEADER_BYTES + readU32(this.#hold, 0);
    if (this.#heldBytes < frameBytes && frameBytes <= HOLD_BYTES_MAX) return;
    const held = this.#hold.subarray(0, this.#heldBytes);
    this.#heldBytes = 0;
    if (frameBytes > HOLD_BYTES_MAX) this.#add(new ComingBytes(frameBytes), held, 0);
    else this.#deliver(held, 0, frameBytes, false);
  }

  /** Adds to a large frame and hands it on when complete. Returns how much it took. */
  #add(coming: ComingBytes, chunk: Buffer, at: number): number {
    this.#coming = coming;
    const taken = coming.take(chunk, at);
    if (coming.isWhole) {
      this.#coming = undefined;
      this.#deliver(coming.bytes, 0, coming.wanted, true);
    }
    return taken;
  }

  #deliver(bytes: Buffer, at: number, frameBytes: number, isKept: boolean): void {
    const type = bytes[at + 5] as FrameTypeCode; // checked by `#startSkip`
    const flags = (bytes[at + 6]! << 8) | bytes[at + 7]!; // inside the header
    const streamId = readU32(bytes, at + 8);
    this.#receiver.frame(type, flags, streamId, bytes, at + FRAME_HEADER_BYTES, at + frameBytes, isKept);
  }

  /** Checks a complete header; true when its payload is too long and will be skipped. */
  #startSkip(bytes: Buffer, at: number): boolean {
    if (bytes[at + 4] !== FRAME_VERSION) {
      if (bytes[at] === TLS_HANDSHAKE && bytes[at + 1] === TLS_MAJOR) throw new PeerFault(TLS_SPOKEN);
      throw new FrameError(`frame version ${bytes[at + 4]}`);
    }
    const type = bytes[at + 5]!; // inside the header
    if (!isFrameType(type)) throw new FrameError(`frame type ${type}`);
    const payloadBytes = readU32(bytes, at);
    if (payloadBytes <= this.payloadBytesMax) return false;
    this.#skipBytes = payloadBytes;
    this.#receiver.oversize(type, readU32(bytes, at + 8), payloadBytes);
    return true;
  }

  /** Copies `chunk[from .. to)`, or as much of it as there is, behind what is held. Returns where it stopped. */
  #keep(chunk: Buffer, from: number, to: number): number {
    const end = Math.min(to, chunk.length);
    const needed = this.#heldBytes + end - from;
    if (needed > this.#hold.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#hold.length, HOLD_BYTES_MIN));
      this.#hold.copy(grown, 0, 0, this.#heldBytes);
      this.#hold = grown;
    }
    chunk.copy(this.#hold, this.#heldBytes, from, end);
    this.#heldBytes = needed;
    return end;
  }
}
