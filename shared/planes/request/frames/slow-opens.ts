import { inTurnOfItsOwn } from '../../../concurrency/index.ts';
import { type ServeError, workerError } from '../../../errors/index.ts';
import { LARGE_RECORD_BYTES, MsgpackReader } from '../../sliced-record.ts';
import type { ServerCallRequest } from '../server-call.ts';
import { FrameError } from './frame.ts';
import { orFault, readOpen, toOpen } from './records.ts';

/** Most frames of a stream before its request is read: a stop, a kill, and credit. */
const FRAMES_MAX = 64;

interface SlowOpensOptions {
  /** Longest payload that is read at once. */
  readonly bytesMax: number;
  /** Called with the request. */
  readonly opened: (streamId: number, request: ServerCallRequest) => void;
  /** Called if the request is refused. */
  readonly refused: (streamId: number, error: ServeError) => void;
  /** Called if the caller sends invalid bytes. */
  readonly fault: (error: unknown) => void;
}

/** Payload of an OPEN frame: `bytes[start .. end)`. */
export interface OpenPayload {
  readonly bytes: Buffer;
  readonly start: number;
  readonly end: number;
  /** Whether `bytes` is never written again. */
  readonly isKept: boolean;
}

interface SlowOpen {
  readonly payload: Buffer;
  readonly record: MsgpackReader;
  readonly frames: (() => void)[];
}

/**
 * Requests of a connection whose records take long to read. It reads one slice of each in a turn, and frames of its
 * stream wait meanwhile. A long prompt of token ids is not such a request, because its ids follow the record and are
 * copied at once.
 */
export class SlowOpens {
  readonly #options: SlowOpensOptions;
  readonly #opens = new Map<number, SlowOpen>();
  #bytes = 0;

  constructor(options: SlowOpensOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#opens.size;
  }

  /**
   * Returns the request of an OPEN payload. Returns undefined if the request is read in slices, or refused. Throws
   * `FrameError` for an invalid payload.
   */
  read(streamId: number, { bytes, start, end, isKept }: OpenPayload): ServerCallRequest | undefined {
    if (end - start <= LARGE_RECORD_BYTES) return readOpen(bytes, start, end);
    const payload = bytes.subarray(start, end);
    const record = new MsgpackReader(payload, { leading: true });
    if (orFault('a request', () => record.read())) return toOpen(record, payload, payload.length);
    if (isKept) this.#add(streamId, payload, record);
    else {
      const copy = Buffer.from(payload); // the connection reads into its buffer again
      this.#add(streamId, copy, new MsgpackReader(copy, { leading: true }));
    }
    return undefined;
  }

  /**
   * Keeps `frame` until the request of its stream is read. Returns false, and does nothing, if no request of the stream
   * is being read.
   */
  takes(streamId: number, frame: () => void): boolean {
    const open = this.#opens.get(streamId);
    if (open === undefined) return false;
    if (open.frames.push(frame) > FRAMES_MAX) throw new FrameError('too many frames of a stream after its OPEN');
    return true;
  }

  /** Drops everything, because the connection is gone. */
  clear(): void {
    this.#opens.clear();
    this.#bytes = 0;
  }

  #add(streamId: number, payload: Buffer, record: MsgpackReader): void {
    if (this.#bytes + payload.length > this.#options.bytesMax) {
      const message = `Server overloaded: large requests of this connection take ${this.#options.bytesMax} bytes`;
      this.#options.refused(streamId, workerError('WorkerOverloaded', message));
      return;
    }
    this.#bytes += payload.length;
    const open = { payload, record, frames: [] };
    this.#opens.set(streamId, open);
    inTurnOfItsOwn(() => this.#slice(streamId, open));
  }

  #slice(streamId: number, open: SlowOpen): void {
    if (this.#opens.get(streamId) !== open) return; // the connection is gone
    const { payload, record, frames } = open;
    try {
      if (!orFault('a request', () => record.read())) {
        inTurnOfItsOwn(() => this.#slice(streamId, open));
        return;
      }
      const request = toOpen(record, payload, payload.length);
      this.#opens.delete(streamId);
      this.#bytes -= payload.length;
      this.#options.opened(streamId, request);
      for (const frame of frames) frame();
    } catch (error) {
      this.#options.fault(error);
    }
  }
}
