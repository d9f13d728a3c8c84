import { endianness } from 'node:os';
import { isLimitName, reasonOf, type WireError, workerError } from '../../../errors/index.ts';
import { isRecord } from '../../../records/index.ts';
import {
  bytesOf,
  decodeLeadingRecord,
  encodePieces,
  type LeadingRecord,
  type RecordPieces,
} from '../../record-codec.ts';
import type { ClientCall } from '../client-call.ts';
import type { ServerCallRequest } from '../server-call.ts';
import type { PlaneRequest } from '../types.ts';
import { FrameError, FrameType, type FrameTypeCode, readU32, writeU32 } from './frame.ts';
import type { ByteWriter } from './outbox.ts';

/** Version of the records exchanged before the first request. Both ends must have the same. */
export const PLANE_PROTOCOL = 2;

/** First record of a connection, from the caller. */
export interface Hello {
  readonly proto: typeof PLANE_PROTOCOL;
  readonly codecs: readonly string[];
  /** Longest payload that the sender accepts, in bytes. */
  readonly maxFrame: number;
  /** Instance that the caller wants to reach. */
  readonly instanceId?: string;
  /** Nonce of 32 random bytes in base64url. A caller with a token sends it to request a proof. */
  readonly nonce?: string;
  /** Whether the caller knows MOVE. To earlier releases, MOVE is a fault of the whole connection. */
  readonly moves?: true;
}

/** The part of `Hello` that a worker reads. */
export interface ReadHello {
  readonly maxFrame: number;
  readonly instanceId: string | undefined;
  readonly nonce: string | undefined;
  readonly moves: boolean;
}

/** Answer of the worker to `Hello`. */
export interface HelloAck {
  readonly instanceId: string;
  readonly endpoints: readonly string[];
  readonly maxFrame: number;
}

/** Record of PROLOGUE. If it contains an error, the stream has ended. */
export interface Prologue {
  readonly error: string | null;
  readonly typed_error?: WireError;
}

const IS_LITTLE_ENDIAN = endianness() === 'LE';

/**
 * Appends an OPEN frame. Its record is Dynamo's control message with the parts of one request. The prompt follows as a
 * raw tail (u32 count, ids). Large byte strings of the body are not copied. If the payload exceeds `payloadBytesMax`,
 * throws `PayloadTooLarge` and writes nothing.
 */
export function writeOpenFrame(
  writer: ByteWriter,
  streamId: number,
  { endpoint, request }: { readonly endpoint: string; readonly request: PlaneRequest },
  payloadBytesMax: number,
): void {
  const { tokenIds } = request;
  const record = encodeOpenRecord(endpoint, request);
  const tailBytes = tokenIds === undefined ? 0 : 4 + tokenIds.byteLength;
  const payloadBytes = bytesOf(record) + tailBytes;
  if (payloadBytes > payloadBytesMax) {
    throw workerError('PayloadTooLarge', `request of ${payloadBytes} bytes; the limit is ${payloadBytesMax}`);
  }
  writer.frameOf(FrameType.open, streamId, record, tailBytes);
  if (tokenIds === undefined) return;
  const tailAt = writer.reserve(tailBytes);
  writeU32(writer.bytes, tailAt, tokenIds.length);
  const raw = Buffer.from(tokenIds.buffer, tokenIds.byteOffset, tokenIds.byteLength);
  const target = writer.bytes.subarray(tailAt + 4, tailAt + 4 + raw.length);
  target.set(raw);
  if (IS_LITTLE_ENDIAN) target.swap32();
}

function encodeOpenRecord(endpoint: string, request: PlaneRequest): RecordPieces {
  const record = {
    id: request.id,
    request_type: 'single_in',
    response_type: 'many_out',
    payload_codec: 'msgpack',
    endpoint,
    headers: request.headers,
    deadlineMs: request.deadlineMs,
    body: request.body,
  };
  return encodePieces(record, { isKept: true });
}

/** Returns the request of an OPEN payload. Throws `FrameError` if it is not one. */
export function readOpen(bytes: Buffer, start: number, end: number): ServerCallRequest {
  return toOpen(decodeLeadingRecord(bytes, start, end), bytes, end);
}

/**
 * Returns the request of an OPEN payload that ends at `end` of `bytes`, and whose record is already read. Throws
 * `FrameError`.
 */
export function toOpen({ value, end: recordEnd }: LeadingRecord, bytes: Buffer, end: number): ServerCallRequest {
  if (!isRecord(value) || typeof value.id !== 'string' || typeof value.endpoint !== 'string') {
    throw new FrameError('OPEN without id or endpoint');
  }
  const { deadlineMs, headers } = value;
  return {
    id: value.id,
    endpoint: value.endpoint,
    headers: readHeaders(headers),
    deadlineMs: typeof deadlineMs === 'number' && deadlineMs >= 0 ? deadlineMs : undefined,
    body: value.body,
    tokenIds: readTokenTail(bytes, recordEnd, end),
  };
}

/** Returns only headers whose values are texts. */
function readHeaders(headers: unknown): Readonly<Record<string, string>> {
  if (!isRecord(headers)) return {};
  if (Object.values(headers).every(isText)) return headers as Readonly<Record<string, string>>;
  return Object.fromEntries(Object.entries(headers).filter((entry): entry is [string, string] => isText(entry[1])));
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function readTokenTail(bytes: Buffer, start: number, end: number): Uint32Array | undefined {
  if (start === end) return undefined;
  if (end - start < 4 || readU32(bytes, start) * 4 !== end - start - 4)
    throw new FrameError('OPEN tail of a wrong length');
  const raw = Buffer.from(bytes.buffer.slice(bytes.byteOffset + start + 4, bytes.byteOffset + end));
  if (IS_LITTLE_ENDIAN) raw.swap32();
  return new Uint32Array(raw.buffer, raw.byteOffset, raw.length / 4);
}

/** Returns the part of `HelloAck` that a caller reads. Throws `FrameError` if it is not one. */
export function readHelloAck(ack: unknown): { readonly instanceId: unknown; readonly maxFrame: number } {
  if (!isRecord(ack) || !isFrameBound(ack.maxFrame)) throw new FrameError('HELLO_ACK without maxFrame');
  return { instanceId: ack.instanceId, maxFrame: ack.maxFrame };
}

/** Whether `value` is valid as the longest payload that a peer accepts. */
export function isFrameBound(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}

const MESSAGE_LENGTH_MAX = 16 << 10;
const NAME_LENGTH_MAX = 256;
const RETRY_MS_MAX = 86_400_000;

/**
 * Passes one frame of its stream to `call`. Throws `FrameError` for a frame that no worker sends. The sink may throw,
 * too.
 */
export function deliverToCall(call: ClientCall, type: FrameTypeCode, record: unknown): void {
  if (!isRecord(record)) throw new FrameError(`frame type ${type} without a record`);
  switch (type) {
    case FrameType.prologue:
      if (record.error === null || record.error === undefined) call.accept();
      else call.failRemote(readWireError(record.typed_error, record.error));
      break;
    case FrameType.data:
      if (isRecord(record.error)) call.failRemote(readWireError(record.error, undefined));
      else if (isRecord(record.data)) call.item(record.data);
      else throw new FrameError('DATA without an item');
      break;
    case FrameType.end:
      call.end();
      break;
    case FrameType.error:
      call.failRemote(readWireError(record, undefined));
      break;
    default:
      throw new FrameError(`frame type ${type} from a worker`);
  }
}

/** Returns a failure as a frame carries it, whatever its shape. */
export function readWireError(record: unknown, fallbackMessage: unknown): WireError {
  const fields = isRecord(record) ? record : {};
  const { kind = 'Unknown', message = fallbackMessage, status, param, code, retryAfterMs, limit } = fields;
  return {
    kind: kind as WireError['kind'], // `fromWire` reads an unknown name as Unknown
    message: typeof message === 'string' ? message.slice(0, MESSAGE_LENGTH_MAX) : 'no message',
    status: typeof status === 'number' ? status : undefined,
    param: typeof param === 'string' ? param.slice(0, NAME_LENGTH_MAX) : undefined,
    code: typeof code === 'string' ? code.slice(0, NAME_LENGTH_MAX) : undefined,
    limit: isLimitName(limit) ? limit : undefined,
    retryAfterMs:
      typeof retryAfterMs === 'number' && retryAfterMs >= 0 ? Math.min(retryAfterMs, RETRY_MS_MAX) : undefined,
  };
}

/**
 * Returns the result of `read`.
 * @throws FrameError that names `what`, the part that the other end sent
 */
export function orFault<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw new FrameError(`${what} that cannot be read: ${reasonOf(cause)}`);
  }
}
