import { turnOfItsOwn } from '../concurrency/index.ts';
import { jsonSteps } from '../protocol/json/index.ts';
import { MsgpackReader } from './msgpack-reader.ts';
import type { RecordCodec } from './record-codec.ts';

/** A longer record is decoded in slices. One of this length takes a millisecond or two. */
export const LARGE_RECORD_BYTES = 64 << 10;
/** Values read in a slice: one to three milliseconds, without the garbage of it. */
const SLICE_STEPS = 10_000;
/** Deeper JSON is refused, as deeper msgpack is. */
const DEPTH_MAX = 512;
const QUOTE = 0x22;

/** Reads one record a slice at a time. */
export interface SlicedRecord {
  /**
   * Reads on. True when the record is whole.
   * @throws RangeError or SyntaxError for what is not exactly one record; the reader is of no use after that
   */
  read(): boolean;
  /** The record, once `read` has returned true. */
  readonly value: unknown;
}

export interface SlicedRecordOptions {
  /** Bytes of the record are views of what was read, which is never written again. @default false, they are copied */
  readonly views?: boolean;
}

/** @param bytes exactly one record; not to be written before it has been read */
export function sliceRecord(
  codec: RecordCodec,
  bytes: Buffer,
  { views = false }: SlicedRecordOptions = {},
): SlicedRecord {
  return codec === 'json' ? new JsonSlices(bytes) : new MsgpackSlices(new MsgpackReader(bytes, { views }));
}

/** A record that other bytes may follow: binary, beginning with a zero byte. */
export interface SlicedLeadingRecord extends SlicedRecord {
  /** Where it ends, once `read` has returned true. */
  readonly end: number;
}

/** The record at the start of `bytes`. */
export function sliceLeadingRecord(codec: RecordCodec, bytes: Buffer): SlicedLeadingRecord {
  if (codec === 'msgpack') return new MsgpackSlices(new MsgpackReader(bytes, { leading: true }));
  const zeroAt = bytes.indexOf(0); // JSON text holds no raw zero byte
  return new JsonSlices(zeroAt < 0 ? bytes : bytes.subarray(0, zeroAt));
}

/** The record in `bytes`, each slice in a turn of the event loop of its own. Rejects as `SlicedRecord.read` throws. */
export async function readSliced(codec: RecordCodec, bytes: Buffer, options?: SlicedRecordOptions): Promise<unknown> {
  const reader = sliceRecord(codec, bytes, options);
  do await turnOfItsOwn();
  while (!reader.read());
  return reader.value;
}

class MsgpackSlices implements SlicedLeadingRecord {
  readonly #reader: MsgpackReader;

  constructor(reader: MsgpackReader) {
    this.#reader = reader;
  }

  get value(): unknown {
    return this.#reader.value;
  }

  get end(): number {
    return this.#reader.end;
  }

  read(): boolean {
    return this.#reader.read(SLICE_STEPS);
  }
}

class JsonSlices implements SlicedLeadingRecord {
  readonly end: number;
  readonly #steps: Generator<void, unknown>;
  value: unknown;

  constructor(bytes: Buffer) {
    this.end = bytes.length;
    this.#steps = textOrSteps(bytes);
  }

  read(): boolean {
    const step = this.#steps.next();
    if (step.done !== true) return false;
    this.value = step.value;
    return true;
  }
}

/** A text alone is no record of many values: it is read at once. */
function* textOrSteps(bytes: Buffer): Generator<void, unknown> {
  if (bytes[0] === QUOTE) return JSON.parse(bytes.toString());
  return yield* jsonSteps(bytes, DEPTH_MAX);
}
