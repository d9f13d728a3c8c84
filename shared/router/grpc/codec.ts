import protobuf from 'protobufjs/minimal.js';
import { ServeError, workerError } from '../../errors/index.ts';
import type { RouterConfigOverride, RoutingHints } from '../../protocol/generation/index.ts';
import { isRecord } from '../../records/index.ts';
import type { PoolRole } from '../router.ts';
import type { ChooseMessage, ChooseQuery, ChosenWorker, PoolLoads, ReservationChangeQuery } from '../service/index.ts';

/* What both ends of proto/router.proto write and read messages with. */

const { Reader, Writer } = protobuf;
type Reader = protobuf.Reader;
type Writer = protobuf.Writer;

/** By their numbers in the file. */
const ROLES: readonly PoolRole[] = ['aggregated', 'prefill', 'decode'];

/** Wire types of the fields that are written here. */
const VARINT = 0;
const FIXED64 = 1;
const LENGTH = 2;

function tag(field: number, wireType: number): number {
  return (field << 3) | wireType;
}

/** Writes a text unless it is empty, which is what an absent one means. */
function text(writer: Writer, field: number, value: string): void {
  if (value !== '') writer.uint32(tag(field, LENGTH)).string(value);
}

function whole(writer: Writer, field: number, value: number): void {
  if (value !== 0) writer.uint32(tag(field, VARINT)).uint32(value);
}

function decimal(writer: Writer, field: number, value: number): void {
  if (value !== 0) writer.uint32(tag(field, FIXED64)).double(value);
}

/** Hands every field to `take`, which reads it and returns true, or leaves it to be passed over. */
function readFields(reader: Reader, take: (field: number, reader: Reader) => boolean, end = reader.len): void {
  try {
    while (reader.pos < end) {
      const key = reader.uint32();
      if (!take(key >>> 3, reader)) reader.skipType(key & 7);
    }
  } catch (thrown) {
    throw thrown instanceof ServeError ? thrown : workerError('InvalidArgument', 'the message cannot be read');
  }
}

/** The service that a router serves by gRPC, as both ends name it. */
export const ROUTER = 'stator.router.v1.Router';

/** A prompt of a million blocks has 16 MB of hashes. */
export const MESSAGE_BYTES_MAX = 32 << 20;

/** Trailer of a failure: its class in Stator's own names, which are finer than the statuses of gRPC. */
export const ERROR_KIND_TRAILER = 'stator-error-kind';

/*
 * What a router reads and writes of proto/router.proto, by hand: a decision is one of the few things here that happens
 * thousands of times a second, and every message maps straight to the service's own types. The test reads and writes each
 * with the messages that protobufjs makes of the file, so that they cannot part.
 */

const BYTES_PER_WORD = 4;

/** What a request that is being read has so far. */
interface ReadQuery {
  requestId: string;
  poolKey: string;
  role: number;
  blockSizeTokens: number;
  promptTokens: number;
  local: Uint8Array;
  sequence: Uint8Array;
  routing: string;
  override: string;
  excluded: string[];
  avoided: string[];
  policyClass: string;
}

const NO_BYTES = new Uint8Array(0);

type FieldReader = (query: ReadQuery, reader: Reader) => void;

/** By field number of `ChooseRequest`. */
const QUERY_FIELDS: Readonly<Record<number, FieldReader>> = {
  1: (query, reader) => {
    query.requestId = reader.string();
  },
  2: (query, reader) => {
    query.poolKey = reader.string();
  },
  3: (query, reader) => {
    query.role = reader.int32();
  },
  4: (query, reader) => {
    query.blockSizeTokens = reader.uint32();
  },
  5: (query, reader) => {
    query.promptTokens = reader.uint32();
  },
  6: (query, reader) => {
    query.local = reader.bytes();
  },
  7: (query, reader) => {
    query.sequence = reader.bytes();
  },
  8: (query, reader) => {
    query.routing = reader.string();
  },
  9: (query, reader) => {
    query.override = reader.string();
  },
  10: (query, reader) => void query.excluded.push(reader.string()),
  11: (query, reader) => void query.avoided.push(reader.string()),
  12: (query, reader) => {
    query.policyClass = reader.string();
  },
};

/** @throws ServeError `invalid_value` for a request that makes no sense */
export function decodeChooseRequest(bytes: Uint8Array): ChooseQuery {
  const reader = Reader.create(bytes);
  return readQuery(reader, reader.len);
}

function readQuery(reader: Reader, end: number): ChooseQuery {
  const read: ReadQuery = {
    requestId: '',
    poolKey: '',
    role: 0,
    blockSizeTokens: 0,
    promptTokens: 0,
    local: NO_BYTES,
    sequence: NO_BYTES,
    routing: '',
    override: '',
    excluded: [],
    avoided: [],
    policyClass: '',
  };
  const take = (field: number): boolean => {
    QUERY_FIELDS[field]?.(read, reader);
    return field in QUERY_FIELDS;
  };
  readFields(reader, take, end);
  if (read.requestId === '') throw invalid('request_id must not be empty');
  if (read.local.length !== read.sequence.length) throw invalid('local_hashes and sequence_hashes differ in length');
  const role = ROLES[read.role];
  if (role === undefined) throw invalid(`role ${read.role} is unknown`);
  const { requestId, poolKey, blockSizeTokens, promptTokens: tokens, policyClass } = read;
  return {
    requestId,
    poolKey,
    role,
    blockSizeTokens,
    prompt: { tokens, hashes: { local: hashesOf(read.local), sequence: hashesOf(read.sequence) } },
    routing: jsonOf<RoutingHints>('routing_json', read.routing) ?? {},
    override: jsonOf<RouterConfigOverride>('override_json', read.override),
    excluded: new Set(read.excluded),
    avoided: new Set(read.avoided),
    policyClass: policyClass === '' ? undefined : policyClass,
  };
}

/** Pairs of u32 halves, low half first, as all machines that Node has builds for lay them out. Copied: they lie anywhere. */
function hashesOf(bytes: Uint8Array): Uint32Array {
  if (bytes.length % (2 * BYTES_PER_WORD) !== 0) throw invalid('hashes have 8 bytes each');
  return new Uint32Array(Uint8Array.from(bytes).buffer);
}

function jsonOf<T>(field: string, json: string): T | undefined {
  if (json === '') return undefined;
  try {
    const value: unknown = JSON.parse(json);
    if (isRecord(value)) return value as T;
  } catch {
    // told below, as for JSON of another kind
  }
  throw invalid(`${field} must be a JSON object`);
}

export function encodeQueuedResponse(position: number): Uint8Array {
  const writer = Writer.create();
  writer.uint32(tag(1, LENGTH)).fork();
  whole(writer, 1, position);
  return writer.ldelim().finish();
}

export function encodeDecisionResponse(chosen: ChosenWorker): Uint8Array {
  const { workerId, dpRank, overlapBlocks, cachedTokens, reservationId } = chosen;
  const writer = Writer.create();
  writer.uint32(tag(2, LENGTH)).fork();
  text(writer, 1, workerId);
  if (dpRank !== undefined) writer.uint32(tag(2, VARINT)).uint32(dpRank);
  whole(writer, 3, overlapBlocks);
  whole(writer, 4, cachedTokens);
  text(writer, 5, reservationId);
  return writer.ldelim().finish();
}

export function decodeReleaseRequest(bytes: Uint8Array): ReservationChangeQuery {
  const change = { requestId: '', reservationId: '', stage: 0 };
  readFields(Reader.create(bytes), (field, reader) => {
    if (field === 1) change.requestId = reader.string();
    else if (field === 2) change.reservationId = reader.string();
    else if (field === 3) change.stage = reader.int32();
    return field >= 1 && field <= 3;
  });
  if (change.stage > 1) throw invalid(`stage ${change.stage} is unknown`);
  return { ...change, stage: change.stage === 1 ? 'prefill_done' : 'end' };
}

export function encodeLoadsResponse(pools: readonly PoolLoads[]): Uint8Array {
  const writer = Writer.create();
  for (const pool of pools) {
    writer.uint32(tag(1, LENGTH)).fork();
    text(writer, 1, pool.model);
    text(writer, 2, pool.poolKey);
    whole(writer, 3, ROLES.indexOf(pool.role));
    whole(writer, 4, pool.pendingRequests);
    decimal(writer, 5, pool.pendingPromptTokens);
    for (const load of pool.loads) {
      writer.uint32(tag(6, LENGTH)).fork();
      text(writer, 1, load.workerId);
      whole(writer, 2, load.dpRank);
      decimal(writer, 3, load.activePrefillTokens);
      decimal(writer, 4, load.activeDecodeBlocks);
      whole(writer, 5, load.activeRequests);
      writer.ldelim();
    }
    writer.ldelim();
  }
  return writer.finish();
}

/** What is to be explained: a decision that was made, or a query. */
type ExplainQuery =
  | { readonly kind: 'request'; readonly requestId: string }
  | { readonly kind: 'query'; readonly query: ChooseQuery };

/** @throws ServeError `invalid_value` for a request that makes no sense */
export function decodeExplainRequest(bytes: Uint8Array): ExplainQuery {
  let about: ExplainQuery | undefined;
  readFields(Reader.create(bytes), (field, reader) => {
    if (field === 1) about = { kind: 'request', requestId: reader.string() };
    else if (field === 2) about = { kind: 'query', query: readQuery(reader, reader.uint32() + reader.pos) };
    return field === 1 || field === 2;
  });
  if (about === undefined) throw invalid('request_id or query must be given');
  return about;
}

export function encodeExplainResponse(explanation: unknown): Uint8Array {
  const writer = Writer.create();
  text(writer, 1, JSON.stringify(explanation));
  return writer.finish();
}

function invalid(message: string): Error {
  return workerError('InvalidArgument', message);
}

/* What callers of a router write and read. */

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
  text(writer, 8, jsonText(routing));
  text(writer, 9, jsonText(override));
  for (const id of query.excluded) text(writer, 10, id);
  for (const id of query.avoided) text(writer, 11, id);
  text(writer, 12, policyClass);
  return writer;
}

/** A view of them: halves of 32 bits, little-endian as all machines that Node has builds for. */
function bytesOf({ buffer, byteOffset, byteLength }: Uint32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function jsonText(value: object | undefined): string {
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
