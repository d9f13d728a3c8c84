import { type WireError, workerError } from '../../../errors/index.ts';
import { bytesOf, encodePieces, encodeRecord, type RecordPieces } from '../../record-codec.ts';
import {
  appendTokens,
  closeTokensFrame,
  FRAME_HEADER_BYTES,
  FrameType,
  type FrameTypeCode,
  tokenEntryBytes,
} from './frame.ts';
import { ByteWriter } from './outbox.ts';
import type { Prologue } from './records.ts';

// Records that are the same for every stream.
const PROLOGUE = encodeRecord({ error: null } satisfies Prologue);
const END = encodeRecord({ complete_final: true });

/**
 * Collects the output of one connection during a turn of the event loop. An engine step writes to many streams; their
 * tokens leave together in one TOKENS frame. Each stream keeps its own order.
 *
 *     target:  PROLOGUEs of this turn | TOKENS of all streams | DATA, END, ERROR
 *
 * If a stream has more tokens after its DATA, the writer seals the turn so far and starts another one behind it.
 */
export class AnswerWriter {
  /** Longest payload that the caller accepts. */
  payloadBytesMax: number;
  readonly #target: ByteWriter;
  readonly #tokens = new ByteWriter();
  readonly #frames = new ByteWriter();
  /** Streams that have frames in `#frames`. */
  readonly #framed = new Set<number>();

  constructor(target: ByteWriter, payloadBytesMax: number) {
    this.#target = target;
    this.payloadBytesMax = payloadBytesMax;
  }

  get pendingBytes(): number {
    return this.#tokens.length + this.#frames.totalBytes;
  }

  /** Adds a PROLOGUE. It is the first frame of its stream, so it may pass waiting frames of other streams. */
  prologue(streamId: number): void {
    this.#target.frame(FrameType.prologue, streamId, PROLOGUE);
  }

  tokens(streamId: number, choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    if (this.#framed.size > 0 && this.#framed.has(streamId)) this.seal();
    if (this.#tokens.length + tokenEntryBytes(count) > this.payloadBytesMax) this.seal();
    appendTokens(this.#tokens, streamId, choice, ids, start, count);
  }

  /**
   * Encodes the record of a frame, and copies its bytes once. If it exceeds the caller's limit, throws
   * `BackendProtocol`, because the fault is not a request that is too large.
   */
  encode(value: unknown): RecordPieces {
    const record = encodePieces(value, { isKept: false }); // an engine may reuse its buffers
    const bytes = bytesOf(record);
    if (bytes <= this.payloadBytesMax) return record;
    throw workerError(
      'BackendProtocol',
      `an item of ${bytes} bytes of the answer; the limit is ${this.payloadBytesMax} (DYN_TCP_MAX_MESSAGE_SIZE)`,
    );
  }

  item(streamId: number, record: RecordPieces): void {
    this.#frames.frameOf(FrameType.data, streamId, record);
    this.#framed.add(streamId);
  }

  end(streamId: number): void {
    this.#frame(FrameType.end, streamId, END);
  }

  fail(streamId: number, error: WireError, isAccepted: boolean): void {
    const prologue: Prologue = { error: error.message, typed_error: error };
    const type = isAccepted ? FrameType.error : FrameType.prologue;
    this.#frame(type, streamId, encodeRecord(isAccepted ? error : prologue));
  }

  /** Moves everything to the target, in order. */
  seal(): void {
    if (this.#tokens.length > FRAME_HEADER_BYTES) {
      closeTokensFrame(this.#tokens);
      this.#tokens.moveTo(this.#target);
    }
    if (this.#frames.totalBytes === 0) return;
    this.#frames.moveTo(this.#target);
    this.#framed.clear();
  }

  #frame(type: FrameTypeCode, streamId: number, record: Uint8Array): void {
    this.#frames.frame(type, streamId, record);
    this.#framed.add(streamId);
  }
}
