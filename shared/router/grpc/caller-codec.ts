import { workerError } from '../../errors/index.ts';
import type { ChooseMessage, ChooseQuery, ChosenWorker, ReservationChangeQuery } from '../service/index.ts';
import { LENGTH, Reader, ROLES, readFields, tag, text, VARINT, Writer, whole } from './codec.ts';

/* The other side of codec.ts: what callers of a router write and read of proto/router.proto. */

export function encodeChooseRequest(query: ChooseQuery): Uint8Array {
  return writeQuery(Writer.create(), query).finish();
}

function writeQuery(writer: Writer, query: ChooseQuery): Writer {
  const { requestId, poolKey, role, blockSizeTokens, prompt, routing, override, policyClass = '' } = query;
  text(writer, 1, requestId);
  text(writer, 2, poolKey);
  whole(writer, 3, ROLES.indexOf(role));
  whole(writer, 4, blockSizeTokens);
  whole(writer, 5, prompt.tokens);
  writer.uint32(tag(6, LENGTH)).bytes(bytesOf(prompt.hashes.local));
  writer.uint32(tag(7, LENGTH)).bytes(bytesOf(prompt.hashes.sequence));
  text(writer, 8, jsonOf(routing));
  text(writer, 9, jsonOf(override));
  for (const id of query.excluded) text(writer, 10, id);
  for (const id of query.avoided) text(writer, 11, id);
  text(writer, 12, policyClass);
  return writer;
}

/** A view of them: halves of 32 bits, little-endian as all machines that Node has builds for. */
function bytesOf({ buffer, byteOffset, byteLength }: Uint32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function jsonOf(value: object | undefined): string {
  return value === undefined ? '' : JSON.stringify(value);
}

/** @throws ServeError `BackendProtocol` for an answer of which nothing is known */
export function decodeChooseResponse(bytes: Uint8Array): ChooseMessage {
  let message: ChooseMessage | undefined;
  readFields(Reader.create(bytes), (field, reader) => {
    if (field === 1) message = { kind: 'queued', position: readPosition(reader, reader.uint32() + reader.pos) };
    else if (field === 2) message = { kind: 'decision', chosen: readDecision(reader, reader.uint32() + reader.pos) };
    return field === 1 || field === 2;
  });
  if (message === undefined) throw workerError('BackendProtocol', 'message must be queued or decision');
  return message;
}

function readPosition(reader: Reader, end: number): number {
  let position = 0;
  const take = (field: number): boolean => {
    if (field === 1) position = reader.uint32();
    return field === 1;
  };
  readFields(reader, take, end);
  return position;
}

/** The fields of `Decision` by number. */
const DECISION_FIELDS: Readonly<Record<number, (reader: Reader) => Partial<ChosenWorker>>> = {
  1: (reader) => ({ workerId: reader.string() }),
  2: (reader) => ({ dpRank: reader.uint32() }),
  3: (reader) => ({ overlapBlocks: reader.uint32() }),
  4: (reader) => ({ cachedTokens: reader.uint32() }),
  5: (reader) => ({ reservationId: reader.string() }),
};

function readDecision(reader: Reader, end: number): ChosenWorker {
  const chosen = { workerId: '', dpRank: undefined, overlapBlocks: 0, cachedTokens: 0, reservationId: '' };
  const take = (field: number): boolean => {
    Object.assign(chosen, DECISION_FIELDS[field]?.(reader));
    return field in DECISION_FIELDS;
  };
  readFields(reader, take, end);
  if (chosen.workerId === '' || chosen.reservationId === '') {
    throw workerError('BackendProtocol', 'decision must be a worker');
  }
  return chosen;
}

export function encodeReleaseRequest({ requestId, reservationId, stage }: ReservationChangeQuery): Uint8Array {
  const writer = Writer.create();
  text(writer, 1, requestId);
  text(writer, 2, reservationId);
  if (stage === 'prefill_done') writer.uint32(tag(3, VARINT)).int32(1);
  return writer.finish();
}

/** By request id, or of a query. */
export function encodeExplainRequest(about: string | ChooseQuery): Uint8Array {
  const writer = Writer.create();
  if (typeof about === 'string') text(writer, 1, about);
  else writeQuery(writer.uint32(tag(2, LENGTH)).fork(), about).ldelim();
  return writer.finish();
}

/** @throws Error for an answer that is no JSON */
export function decodeExplainResponse(bytes: Uint8Array): unknown {
  let json = '';
  readFields(Reader.create(bytes), (field, reader) => {
    if (field === 1) json = reader.string();
    return field === 1;
  });
  return JSON.parse(json);
}
