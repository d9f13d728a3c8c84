import { bytesOf, type RecordPieces } from '../../record-codec.ts';
import type { RequestPlaneObserver } from '../observer.ts';
import type { ByteChannel } from './byte-channel.ts';
import { FRAME_HEADER_BYTES, type FrameTypeCode, writeFrameHeader } from './frame.ts';
import { type ConnectionSettings, outboundBytesMax } from './settings.ts';

const BYTES_MIN = 512;
const BYTES_KEPT = 256 << 10;
/** Length from which pieces are sent without a copy. */
const COPIED_BYTES_MAX = 32 << 10;

/**
 * Bytes assembled for one write. The buffer doubles when it is full, and keeps at most 256 KiB when it is emptied.
 * Large pieces are not copied: they stay between the bytes assembled before and after them.
 */
export class ByteWriter {
  /** Bytes assembled since the last large piece. */
  bytes = Buffer.allocUnsafeSlow(BYTES_MIN);
  /** Number of those bytes. */
  length = 0;
  #before: Uint8Array[] = [];
  #beforeBytes = 0;

  /** Number of all bytes, including large pieces. */
  get totalBytes(): number {
    return this.#beforeBytes + this.length;
  }

  /** Makes room for `count` more bytes; returns where they start. The caller fills them. */
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

  /** Appends a whole frame. A large payload is not copied, because it is never written again. */
  frame(type: FrameTypeCode, streamId: number, payload: Uint8Array): void {
    const { length } = payload;
    if (length > COPIED_BYTES_MAX) {
      this.frameOf(type, streamId, [payload]);
      return;
    }
    const at = this.reserve(FRAME_HEADER_BYTES + length);
    writeFrameHeader(this.bytes, at, length, type, streamId);
    this.bytes.set(payload, at + FRAME_HEADER_BYTES);
  }

  /**
   * Appends the start of a frame whose payload is `pieces`. The caller appends the remaining `tailBytes`.
   * @param pieces large ones are not copied, so the caller must not write to them again
   */
  frameOf(type: FrameTypeCode, streamId: number, pieces: RecordPieces, tailBytes = 0): void {
    const at = this.reserve(FRAME_HEADER_BYTES);
    writeFrameHeader(this.bytes, at, bytesOf(pieces) + tailBytes, type, streamId);
    for (const piece of pieces) this.#append(piece);
  }

  /** Overwrites bytes from `at` on, which must precede every large piece. */
  overwrite(at: number, bytes: Uint8Array): void {
    (this.#before[0] ?? this.bytes).set(bytes, at);
  }

  /** Returns all pieces, in order. */
  pieces(): RecordPieces {
    const last = this.bytes.subarray(0, this.length);
    if (this.#before.length === 0) return [last];
    return this.length === 0 ? this.#before : [...this.#before, last];
  }

  /** Moves everything to the end of `target` and empties this writer. */
  moveTo(target: ByteWriter): void {
    for (const piece of this.#before) target.#append(piece);
    if (this.length > 0) {
      const at = target.reserve(this.length);
      this.bytes.copy(target.bytes, at, 0, this.length);
    }
    this.empty();
  }

  /** Drops the contents and keeps the memory. */
  empty(): void {
    this.length = 0;
    this.#forgetBefore();
    if (this.bytes.length > BYTES_KEPT) this.replace();
  }

  /** Drops the contents and leaves the memory to its last reader. */
  replace(): void {
    this.length = 0;
    this.#forgetBefore();
    this.bytes = Buffer.allocUnsafeSlow(BYTES_MIN);
  }

  #append(piece: Uint8Array): void {
    if (piece.length <= COPIED_BYTES_MAX) {
      const at = this.reserve(piece.length);
      this.bytes.set(piece, at);
      return;
    }
    if (this.length > 0) {
      this.#keep(this.bytes.subarray(0, this.length));
      this.length = 0;
      this.bytes = Buffer.allocUnsafeSlow(BYTES_MIN);
    }
    this.#keep(piece);
  }

  #keep(piece: Uint8Array): void {
    this.#before.push(piece);
    this.#beforeBytes += piece.length;
  }

  #forgetBefore(): void {
    if (this.#beforeBytes === 0) return;
    this.#before = [];
    this.#beforeBytes = 0;
  }
}

/**
 * Output of a connection, written once at the end of each turn of the event loop. While the buffer of the socket is
 * full, further output waits here, where its owner can see and limit it.
 */
export class Outbox {
  readonly waiting = new ByteWriter();
  readonly #socket: ByteChannel;
  readonly #observer: RequestPlaneObserver;
  readonly #beforeWrite: (() => void) | undefined;
  #isScheduled = false;
  #isBlocked: boolean;

  /**
   * @param isBlocked whether everything waits until `unblock`, for example until the socket is connected
   */
  constructor(socket: ByteChannel, observer: RequestPlaneObserver, isBlocked: boolean, beforeWrite?: () => void) {
    this.#socket = socket;
    this.#observer = observer;
    this.#isBlocked = isBlocked;
    this.#beforeWrite = beforeWrite;
  }

  get isBlocked(): boolean {
    return this.#isBlocked;
  }

  /** Bytes that the kernel has not accepted yet. */
  get pendingBytes(): number {
    return this.waiting.totalBytes + this.#socket.writableLength;
  }

  /**
   * Whether the peer has stopped reading and the connection must close, because too many bytes wait. Callers limit all
   * other output before that.
   */
  isOverfull(settings: ConnectionSettings, moreBytes = 0): boolean {
    return this.#isBlocked && this.pendingBytes + moreBytes > outboundBytesMax(settings) + settings.frameBytesMax;
  }

  /** Writes at the end of this turn. */
  schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // setImmediate rather than a microtask: it runs after every socket that is readable now. So the requests of several
    // clients, or the tokens of one engine step that arrive over several streams, leave in one write.
    setImmediate(this.#flushScheduled);
  }

  unblock(): void {
    this.#isBlocked = false;
    this.flush();
  }

  flush(): void {
    if (this.#isBlocked || this.#socket.destroyed) return;
    this.#beforeWrite?.();
    const { waiting } = this;
    const { totalBytes } = waiting;
    if (totalBytes === 0) return;
    this.#observer.bytesSent(totalBytes);
    let hasRoom = true;
    for (const piece of waiting.pieces()) hasRoom = this.#socket.write(piece);
    if (this.#socket.writableLength === 0) {
      waiting.empty(); // the kernel accepted everything: the memory is ours again
      return;
    }
    waiting.replace();
    this.#isBlocked = !hasRoom; // 'drain' follows
  }

  readonly #flushScheduled = (): void => {
    this.#isScheduled = false;
    this.flush();
  };
}
