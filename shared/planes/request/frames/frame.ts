import { ComingBytes } from '../../../records/index.ts';
import { PeerFault, TLS_SPOKEN } from './peer-trust.ts';

/*
 * Frames of the TCP and NATS planes, big-endian:
 *
 *     0         4        5     6       8           12
 *     | length  | version | type | flags | stream id | payload (length bytes) |
 */

export const FRAME_HEADER_BYTES = 12;
const FRAME_VERSION = 1;
/** Longest payload of PING and PONG. */
export const PING_BYTES_MAX = 64;
/** Payload of a KILL that is sent because another worker continues the request. Any other KILL has no payload. */
export const KILL_MOVED = 1;
/** Stream id of frames that concern the connection. */
export const CONNECTION_STREAM = 0;

export const FrameType = {
  hello: 1,
  helloAck: 2,
  open: 3,
  prologue: 4,
  data: 5,
  end: 6,
  error: 7,
  stop: 8,
  kill: 9,
  credit: 10,
  ping: 11,
  pong: 12,
  goAway: 13,
  tokens: 14,
  challenge: 15,
  proof: 16,
  move: 17,
} as const;

/** Bit 0 of the flags: the payload is, or begins with, a record in msgpack. The type of a frame decides it. */
const FLAGS = new Uint8Array(FrameType.move + 1);
for (const name of ['hello', 'helloAck', 'open', 'prologue', 'data', 'end', 'error', 'goAway'] as const) {
  FLAGS[FrameType[name]] = 1;
}

export type FrameTypeCode = (typeof FrameType)[keyof typeof FrameType];

/** Thrown if the peer broke the protocol; its connection must be closed. */
export class FrameError extends Error {
  override readonly name = 'FrameError';
}

function isFrameType(code: number): code is FrameTypeCode {
  return code >= FrameType.hello && code <= FrameType.move;
}

export function readU32(bytes: Uint8Array, at: number): number {
  // A read outside the buffer yields 0 here, because callers check lengths first.
  return ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0;
}

export function writeU32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
}

export function writeFrameHeader(
  bytes: Uint8Array,
  at: number,
  payloadBytes: number,
  type: FrameTypeCode,
  streamId: number,
): void {
  writeU32(bytes, at, payloadBytes);
  bytes[at + 4] = FRAME_VERSION;
  bytes[at + 5] = type;
  bytes[at + 6] = 0;
  bytes[at + 7] = FLAGS[type]!; // there is one for each type
  writeU32(bytes, at + 8, streamId);
}

/** A receiver of the frames of one connection. */
export interface FrameReceiver {
  /**
   * Handles one frame, whose payload is `bytes[start .. end)`.
   * @param isKept whether the receiver may keep `bytes`; otherwise the payload is valid only during the call
   */
  frame(type: FrameTypeCode, streamId: number, bytes: Buffer, start: number, end: number, isKept: boolean): void;
  /** Handles a frame longer than the limit. Its payload is skipped. */
  oversize(type: FrameTypeCode, streamId: number, payloadBytes: number): void;
}

// The first bytes of a TLS connection.
const TLS_HANDSHAKE = 0x16;
const TLS_MAJOR = 3;
const HOLD_BYTES_MIN = 4096;
/** Length up to which the parser assembles frames in one shared buffer. */
const HOLD_BYTES_MAX = 1 << 20;
const NOTHING = Buffer.alloc(0);

/**
 * Cuts a byte stream into frames, wherever its chunks end. It passes a frame within one chunk on without a copy. It
 * assembles a frame that crosses chunks in its own buffer, which grows with the bytes that arrive, not with the
 * promised length. A large frame gets its own memory, which the receiver may keep.
 */
export class FrameParser {
  /** Longest accepted payload; longer frames are skipped and reported. */
  payloadBytesMax: number;
  readonly #receiver: FrameReceiver;
  #hold = NOTHING;
  #heldBytes = 0;
  /** The large frame that is arriving. */
  #coming: ComingBytes | undefined;
  #skipBytes = 0;
  #isStopped = false;

  constructor(receiver: FrameReceiver, payloadBytesMax: number) {
    this.#receiver = receiver;
    this.payloadBytesMax = payloadBytesMax;
  }

  /** Stops reading, because the connection is closed. A receiver may call it while it handles a frame. */
  stop(): void {
    this.#isStopped = true;
    this.#hold = NOTHING;
    this.#heldBytes = 0;
    this.#coming = undefined;
  }

  /**
   * Takes the next bytes of the stream. Throws `FrameError` for an invalid header, and `PeerFault` if the peer speaks
   * TLS.
   */
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

  /** Reads one frame at `at`, or holds the part that is there. Returns the offset at which reading continues. */
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

  /** Adds bytes to the held frame, and passes it on when it is complete. */
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

  /** Adds bytes to a large frame, and passes it on when it is complete. Returns how many bytes it took. */
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
    const streamId = readU32(bytes, at + 8);
    this.#receiver.frame(type, streamId, bytes, at + FRAME_HEADER_BYTES, at + frameBytes, isKept);
  }

  /** Checks a complete header. Returns true if its payload is too long and will be skipped. */
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

  /**
   * Copies `chunk[from .. to)`, or as much of it as there is, to the end of the held bytes. Returns where it stopped.
   */
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

/*
 * Payload of a TOKENS frame, one for all streams of an engine step:
 *     repeated { u32 stream, u8 choice, u8 n, n x u32 token id }
 */

const ENTRY_BYTES = 6;
/**
 * Longest payload of TOKENS: the credit of all streams of a connection, with each token in an entry of its own. No
 * engine step is longer.
 */
const FRAME_BYTES_MAX = 4 << 20;
/** Token ids in one entry. */
const IDS_MAX = 255;

/** A receiver of the entries of a TOKENS frame. `ids` is reused, so it is valid only during the call. */
export interface TokenReceiver {
  streamTokens(streamId: number, choice: number, ids: Uint32Array, count: number): void;
}

/** Returns the payload bytes of `count` tokens of one stream. */
export function tokenEntryBytes(count: number): number {
  return Math.ceil(count / IDS_MAX) * ENTRY_BYTES + 4 * count;
}

/** Buffer in which the bytes of a frame are assembled. */
interface FrameWriter {
  readonly bytes: Buffer;
  readonly length: number;
  /** Makes room for `count` more bytes; returns where they start. */
  reserve(count: number): number;
}

/** Starts a TOKENS frame in an empty writer; `closeTokensFrame` completes its header. */
export function appendTokens(
  writer: FrameWriter,
  streamId: number,
  choice: number,
  ids: ArrayLike<number>,
  start: number,
  count: number,
): void {
  if (writer.length === 0) writer.reserve(FRAME_HEADER_BYTES);
  let at = writer.reserve(tokenEntryBytes(count));
  const { bytes } = writer;
  for (let next = start, end = start + count; next < end; ) {
    const entryEnd = Math.min(next + IDS_MAX, end);
    writeU32(bytes, at, streamId);
    bytes[at + 4] = choice;
    bytes[at + 5] = entryEnd - next;
    at += ENTRY_BYTES;
    for (; next < entryEnd; next++, at += 4) writeU32(bytes, at, ids[next]!); // within the caller's range
  }
}

/** Completes the header of the frame that `appendTokens` started. */
export function closeTokensFrame(writer: FrameWriter): void {
  writeFrameHeader(writer.bytes, 0, writer.length - FRAME_HEADER_BYTES, FrameType.tokens, CONNECTION_STREAM);
}

const scratch = new Uint32Array(IDS_MAX);

/**
 * Passes every entry of `bytes[start .. end)` to `receiver`. Throws `FrameError` if the entries do not fill it exactly.
 */
export function readTokens(bytes: Buffer, start: number, end: number, receiver: TokenReceiver): void {
  if (end - start > FRAME_BYTES_MAX) throw new FrameError(`a TOKENS frame of ${end - start} bytes`);
  let at = start;
  while (at < end) {
    if (end - at < ENTRY_BYTES) throw new FrameError('TOKENS frame cut inside an entry');
    const streamId = readU32(bytes, at);
    const choice = bytes[at + 4]!; // inside the entry
    const count = bytes[at + 5]!; // inside the entry
    at += ENTRY_BYTES;
    if (count === 0) throw new FrameError('TOKENS without a token'); // a token that costs no credit would have no bound
    if (end - at < 4 * count) throw new FrameError('TOKENS frame cut inside its ids');
    for (let id = 0; id < count; id++, at += 4) scratch[id] = readU32(bytes, at);
    receiver.streamTokens(streamId, choice, scratch, count);
  }
}
