import { inTurnOfItsOwn } from '../../../concurrency/index.ts';
import { type ServeError, workerError } from '../../../errors/index.ts';
import { decodeRecord } from '../../record-codec.ts';
import { LARGE_RECORD_BYTES, MsgpackReader } from '../../sliced-record.ts';
import type { ClientCall } from '../client-call.ts';
import { FrameError, type FrameTypeCode } from './frame.ts';
import { deliverToCall, orFault } from './records.ts';

/** Number of bytes decoded in one turn of the event loop after which even a shorter record is decoded in slices. */
const TURN_BYTES_MAX = 256 << 10;
/** Size below which a frame does not count: it ends a stream, or has little content. */
const COUNTED_BYTES_MIN = 1024;
/** Cost of a waiting frame in addition to its bytes. */
const OVERHEAD_BYTES = 128;

interface SlowStreamsOptions {
  /** Largest size of all waiting frames, in bytes. */
  readonly bytesMax: number;
  /** Called if the worker sends invalid bytes. */
  readonly fault: (error: unknown) => void;
}

interface Waiting {
  readonly bytes: number;
  /** Reads on. Returns false if there is more to read. */
  readonly deliver: () => boolean;
}

interface SlowStream {
  readonly call: ClientCall;
  readonly frames: Waiting[];
}

/**
 * Streams of a connection with a large frame to decode. A list of 100,000 log probabilities takes 150 ms, during which
 * no other stream of the process would continue. So it is decoded in slices, one per turn. Later frames of its stream
 * wait, up to a bound, and other streams continue.
 */
export class SlowStreams {
  readonly #options: SlowStreamsOptions;
  readonly #streams = new Map<number, SlowStream>();
  #bytes = 0;

  constructor(options: SlowStreamsOptions) {
    this.#options = options;
  }

  /**
   * Keeps a frame that is large, or that follows a large one of its stream. Returns false, and does nothing, for every
   * other frame.
   */
  takesFrame(
    call: ClientCall,
    streamId: number,
    type: FrameTypeCode,
    payload: { readonly bytes: Buffer; readonly start: number; readonly end: number; readonly isKept: boolean },
  ): boolean {
    const { bytes, start, end, isKept } = payload;
    const isLarge = takesTurns(end - start);
    if (!isLarge && !this.#streams.has(streamId)) return false;
    const view = bytes.subarray(start, end);
    const copy = isKept ? view : Buffer.from(view); // the connection may read into its buffer again
    const reader = isLarge ? new MsgpackReader(copy, { views: true }) : undefined; // no other code has the copy
    this.#add(call, streamId, copy.length, () => {
      if (reader !== undefined && !orFault('a record', () => reader.read())) return false;
      const whole = (): unknown => decodeRecord(copy, 0, copy.length);
      const record = reader === undefined ? orFault('a record', whole) : reader.value;
      deliverToCall(call, type, record);
      return true;
    });
    return true;
  }

  /** Keeps tokens that follow a large frame of their stream. Returns false if the stream has no large frame. */
  takesTokens(streamId: number, choice: number, ids: Uint32Array, count: number): boolean {
    const call = this.#streams.get(streamId)?.call;
    if (call === undefined) return false;
    const copy = ids.slice(0, count);
    this.#add(call, streamId, copy.byteLength, () => {
      call.tokens(choice, copy, 0, count);
      return true;
    });
    return true;
  }

  /**
   * Fails a stream whose connection is gone, after its waiting frames. Returns false, and does nothing, if it has no
   * waiting frames.
   */
  takesEnd(streamId: number, error: ServeError): boolean {
    const stream = this.#streams.get(streamId);
    if (stream === undefined) return false;
    this.#add(stream.call, streamId, 0, () => {
      stream.call.fail(error);
      return true;
    });
    return true;
  }

  /** Drops a stream that has ended, so that nothing more of it is delivered. */
  release(streamId: number): void {
    const stream = this.#streams.get(streamId);
    if (stream === undefined) return;
    this.#streams.delete(streamId);
    for (const { bytes } of stream.frames.splice(0)) this.#bytes -= bytes;
  }

  #add(call: ClientCall, streamId: number, payloadBytes: number, deliver: () => boolean): void {
    const bytes = payloadBytes + OVERHEAD_BYTES;
    if (this.#bytes + bytes > this.#options.bytesMax) {
      call.abandon(
        workerError('BackendProtocol', `the worker sends faster than ${this.#options.bytesMax} bytes are read`),
      );
      return;
    }
    this.#bytes += bytes;
    const stream = this.#streams.get(streamId);
    if (stream !== undefined) {
      stream.frames.push({ bytes, deliver });
      return;
    }
    const opened: SlowStream = { call, frames: [{ bytes, deliver }] };
    this.#streams.set(streamId, opened);
    inTurnOfItsOwn(() => this.#deliver(streamId, opened));
  }

  /** Delivers one slice, or one frame, of a stream. */
  #deliver(streamId: number, stream: SlowStream): void {
    const [first] = stream.frames;
    if (first === undefined) return; // released
    try {
      if (first.deliver()) this.#delivered(stream, first);
    } catch (thrown) {
      this.#delivered(stream, first);
      this.#failed(streamId, stream, thrown);
    }
    if (stream.frames.length > 0) inTurnOfItsOwn(() => this.#deliver(streamId, stream));
    else if (this.#streams.get(streamId) === stream) this.#streams.delete(streamId);
  }

  #delivered(stream: SlowStream, waiting: Waiting): void {
    if (stream.frames[0] !== waiting) return; // released by the delivered frame
    stream.frames.shift();
    this.#bytes -= waiting.bytes;
  }

  #failed(streamId: number, stream: SlowStream, thrown: unknown): void {
    if (!(thrown instanceof FrameError)) {
      stream.call.sinkThrew(thrown);
      return;
    }
    this.release(streamId);
    this.#options.fault(thrown);
  }
}

let turnBytes = 0;

/**
 * Whether a record must be decoded from the next turn on, because it is long, or because this turn has already decoded
 * much.
 */
function takesTurns(recordBytes: number): boolean {
  if (recordBytes > LARGE_RECORD_BYTES) return true;
  if (recordBytes < COUNTED_BYTES_MIN) return false;
  if (turnBytes === 0) setImmediate(startTurn);
  turnBytes += recordBytes;
  return turnBytes > TURN_BYTES_MAX;
}

function startTurn(): void {
  turnBytes = 0;
}
