import protobuf from 'protobufjs/minimal.js';
import { type WorkerErrorKind, workerError } from '../../errors/index.ts';
import type { RouterConfigOverride, RoutingHints } from '../../protocol/index.ts';
import { isRecord } from '../../records/index.ts';
import type { PoolRole } from '../../router/index.ts';
import type { ChooseMessage, ChooseQuery, ChosenWorker, PoolLoads, ReservationChangeQuery } from '../messages.ts';

/** Name of the service that a router serves by gRPC. */
export const ROUTER = 'stator.router.v1.Router';

/** Bound of a message. A prompt of a million blocks has 16 MB of hashes. */
export const MESSAGE_BYTES_MAX = 32 << 20;

/** Trailer of a failure: its class in Stator's own names, which are finer than the statuses of gRPC. */
export const ERROR_KIND_TRAILER = 'stator-error-kind';
/** Trailer of a failure: the invalid field of the client's request. */
export const ERROR_PARAM_TRAILER = 'stator-error-param';

/*
 * Writers and readers of the messages of proto/router.proto, by tables of its fields. A decision happens thousands of
 * times a second, so every message maps directly to the service's own types. The test reads and writes each with the
 * messages that protobufjs makes of the file, so that the two stay equal.
 */

/** Wire types by the library's names of values. */
const WIRE_TYPES = { string: 2, bytes: 2, uint32: 0, int32: 0, double: 1 } as const;

/**
 * A field: its name here, the type of its value, and its presence. `explicit` fields differ from absent ones. Others
 * are left out if they are empty or 0. Messages within a message are bytes.
 */
type Field = readonly [name: string, type: keyof typeof WIRE_TYPES, presence?: 'explicit' | 'repeated'];
/** Fields by number. */
type Fields = readonly (Field | undefined)[];

const QUERY = fieldsOf(
  ['requestId', 'string'],
  ['poolKey', 'string'],
  ['role', 'int32'],
  ['blockSizeTokens', 'uint32'],
  ['promptTokens', 'uint32'],
  ['local', 'bytes', 'explicit'],
  ['sequence', 'bytes', 'explicit'],
  ['routing', 'string'],
  ['override', 'string'],
  ['excluded', 'string', 'repeated'],
  ['avoided', 'string', 'repeated'],
  ['policyClass', 'string'],
);
const QUEUED = fieldsOf(['position', 'uint32']);
const DECISION = fieldsOf(
  ['workerId', 'string'],
  ['dpRank', 'uint32', 'explicit'],
  ['overlapBlocks', 'uint32'],
  ['cachedTokens', 'uint32'],
  ['reservationId', 'string'],
);
const CHOOSE_RESPONSE = fieldsOf(['queued', 'bytes', 'explicit'], ['decision', 'bytes', 'explicit']);
const RELEASE = fieldsOf(
  ['requestId', 'string'],
  ['reservationId', 'string'],
  ['stage', 'int32'],
  ['outputTokens', 'uint32'],
);
const RANK_LOAD = fieldsOf(
  ['workerId', 'string'],
  ['dpRank', 'uint32'],
  ['activePrefillTokens', 'double'],
  ['activeDecodeBlocks', 'double'],
  ['activeRequests', 'uint32'],
);
const POOL_LOADS = fieldsOf(
  ['model', 'string'],
  ['poolKey', 'string'],
  ['role', 'int32'],
  ['pendingRequests', 'uint32'],
  ['pendingPromptTokens', 'double'],
  ['loads', 'bytes', 'repeated'],
);
const LOADS_RESPONSE = fieldsOf(['pools', 'bytes', 'repeated']);
const EXPLAIN_REQUEST = fieldsOf(['requestId', 'string', 'explicit'], ['query', 'bytes', 'explicit']);
const EXPLAIN_RESPONSE = fieldsOf(['json', 'string']);

/** Roles by their numbers in the file. */
const ROLES: readonly PoolRole[] = ['aggregated', 'prefill', 'decode'];

/** Returns the fields, numbered from 1. */
function fieldsOf(...fields: readonly Field[]): Fields {
  return [undefined, ...fields];
}

function write(fields: Fields, message: object): Uint8Array {
  const values = message as Readonly<Record<string, unknown>>;
  const writer = protobuf.Writer.create();
  for (let number = 1; number < fields.length; number++) {
    const field = fields[number] as Field;
    const value = values[field[0]];
    if (field[2] === 'repeated')
      for (const each of value as Iterable<unknown>) writeOne(writer, number, field[1], each);
    else if (value !== undefined && (field[2] === 'explicit' || (value !== '' && value !== 0))) {
      writeOne(writer, number, field[1], value);
    }
  }
  return writer.finish();
}

function writeOne(writer: protobuf.Writer, number: number, type: Field[1], value: unknown): void {
  writer.uint32((number << 3) | WIRE_TYPES[type]);
  writer[type](value as never); // the table names its type
}

/**
 * Fills `message`, which has the values of absent fields. Ignores unknown fields.
 * @param fault class of the failure if it cannot be read: the client's request is at fault, or the router's answer
 */
function read<Message extends object>(
  fields: Fields,
  bytes: Uint8Array,
  message: Message,
  fault: WorkerErrorKind = 'InvalidArgument',
): Message {
  const values = message as Record<string, unknown>;
  try {
    const reader = protobuf.Reader.create(bytes);
    while (reader.pos < reader.len) {
      const key = reader.uint32();
      const field = fields[key >>> 3];
      if (field === undefined) reader.skipType(key & 7);
      else if (field[2] === 'repeated') (values[field[0]] as unknown[]).push(reader[field[1]]());
      else values[field[0]] = reader[field[1]]();
    }
    return message;
  } catch {
    throw workerError(fault, 'the message cannot be read');
  }
}

const BYTES_PER_HASH = 8;
const NO_BYTES = new Uint8Array(0);

/** @throws ServeError `invalid_value` for an invalid request */
export function decodeChooseRequest(bytes: Uint8Array): ChooseQuery {
  const fields = read(QUERY, bytes, {
    requestId: '',
    poolKey: '',
    role: 0,
    blockSizeTokens: 0,
    promptTokens: 0,
    local: NO_BYTES,
    sequence: NO_BYTES,
    routing: '',
    override: '',
    excluded: [] as string[],
    avoided: [] as string[],
    policyClass: '',
  });
  const { requestId, poolKey, blockSizeTokens, promptTokens: tokens, local, sequence, policyClass } = fields;
  if (requestId === '') throw invalid('request_id must not be empty');
  if (local.length !== sequence.length) throw invalid('local_hashes and sequence_hashes differ in length');
  const role = ROLES[fields.role];
  if (role === undefined) throw invalid(`role ${fields.role} is unknown`);
  return {
    requestId,
    poolKey,
    role,
    blockSizeTokens,
    prompt: { tokens, hashes: { local: hashesOf(local), sequence: hashesOf(sequence) } },
    routing: jsonOf<RoutingHints>('routing_json', fields.routing) ?? {},
    override: jsonOf<RouterConfigOverride>('override_json', fields.override),
    excluded: new Set(fields.excluded),
    avoided: new Set(fields.avoided),
    policyClass: policyClass === '' ? undefined : policyClass,
  };
}

export function encodeChooseRequest(query: ChooseQuery): Uint8Array {
  const { requestId, poolKey, role, blockSizeTokens, prompt, routing, override, excluded, avoided, policyClass } =
    query;
  return write(QUERY, {
    requestId,
    poolKey,
    role: ROLES.indexOf(role),
    blockSizeTokens,
    promptTokens: prompt.tokens,
    local: bytesOf(prompt.hashes.local),
    sequence: bytesOf(prompt.hashes.sequence),
    routing: JSON.stringify(routing),
    override: override && JSON.stringify(override),
    excluded,
    avoided,
    policyClass,
  });
}

/**
 * Returns pairs of u32 halves, low half first, as on all machines that Node has builds for. They are copied, because
 * the bytes may not be aligned.
 */
function hashesOf(bytes: Uint8Array): Uint32Array {
  if (bytes.length % BYTES_PER_HASH !== 0) throw invalid('hashes have 8 bytes each');
  return new Uint32Array(Uint8Array.from(bytes).buffer);
}

/** Returns a view of the bytes: halves of 32 bits, little-endian as on all machines that Node has builds for. */
function bytesOf({ buffer, byteOffset, byteLength }: Uint32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function jsonOf<T>(field: string, json: string): T | undefined {
  if (json === '') return undefined;
  try {
    const value: unknown = JSON.parse(json);
    if (isRecord(value)) return value as T;
  } catch {
    // the error below covers it, as JSON of another kind
  }
  throw invalid(`${field} must be a JSON object`);
}

export function encodeQueuedResponse(position: number): Uint8Array {
  return write(CHOOSE_RESPONSE, { queued: write(QUEUED, { position }) });
}

export function encodeDecisionResponse(chosen: ChosenWorker): Uint8Array {
  return write(CHOOSE_RESPONSE, { decision: write(DECISION, chosen) });
}

/** @throws ServeError `BackendProtocol` for an answer that cannot be read or is of an unknown kind */
export function decodeChooseResponse(bytes: Uint8Array): ChooseMessage {
  const nothing: { queued?: Uint8Array; decision?: Uint8Array } = {};
  const { queued, decision } = read(CHOOSE_RESPONSE, bytes, nothing, 'BackendProtocol');
  if (decision !== undefined) return { kind: 'decision', chosen: readDecision(decision) };
  if (queued !== undefined) return { kind: 'queued', ...read(QUEUED, queued, { position: 0 }, 'BackendProtocol') };
  throw workerError('BackendProtocol', 'message must be queued or decision');
}

function readDecision(bytes: Uint8Array): ChosenWorker {
  const absent = { workerId: '', dpRank: undefined, overlapBlocks: 0, cachedTokens: 0, reservationId: '' };
  const chosen = read(DECISION, bytes, absent, 'BackendProtocol');
  if (chosen.workerId === '' || chosen.reservationId === '') {
    throw workerError('BackendProtocol', 'decision must be a worker');
  }
  return chosen;
}

export function decodeReleaseRequest(bytes: Uint8Array): ReservationChangeQuery {
  const change = read(RELEASE, bytes, { requestId: '', reservationId: '', stage: 0, outputTokens: 0 });
  if (change.stage > 1) throw invalid(`stage ${change.stage} is unknown`);
  return { ...change, stage: change.stage === 1 ? 'prefill_done' : 'end' };
}

export function encodeReleaseRequest({ stage, ...names }: ReservationChangeQuery): Uint8Array {
  return write(RELEASE, { ...names, stage: stage === 'prefill_done' ? 1 : 0 });
}

export function encodeLoadsResponse(pools: readonly PoolLoads[]): Uint8Array {
  return write(LOADS_RESPONSE, {
    pools: pools.map(({ role, loads, ...pool }) =>
      write(POOL_LOADS, {
        ...pool,
        role: ROLES.indexOf(role),
        loads: loads.map((load) => write(RANK_LOAD, load)),
      }),
    ),
  });
}

/** Request for an explanation: of a decision that was made, or of a query. */
type ExplainQuery =
  | { readonly kind: 'request'; readonly requestId: string }
  | { readonly kind: 'query'; readonly query: ChooseQuery };

/** @throws ServeError `invalid_value` for an invalid request */
export function decodeExplainRequest(bytes: Uint8Array): ExplainQuery {
  const nothing: { requestId?: string; query?: Uint8Array } = {};
  const { requestId, query } = read(EXPLAIN_REQUEST, bytes, nothing);
  if (query !== undefined) return { kind: 'query', query: decodeChooseRequest(query) };
  if (requestId !== undefined) return { kind: 'request', requestId };
  throw invalid('request_id or query must be given');
}

/** Encodes a request by request id, or with a query. */
export function encodeExplainRequest(about: string | ChooseQuery): Uint8Array {
  return write(
    EXPLAIN_REQUEST,
    typeof about === 'string' ? { requestId: about } : { query: encodeChooseRequest(about) },
  );
}

export function encodeExplainResponse(explanation: unknown): Uint8Array {
  return write(EXPLAIN_RESPONSE, { json: JSON.stringify(explanation) });
}

/** @throws Error for an answer that is not JSON */
export function decodeExplainResponse(bytes: Uint8Array): unknown {
  return JSON.parse(read(EXPLAIN_RESPONSE, bytes, { json: '' }).json);
}

function invalid(message: string): Error {
  return workerError('InvalidArgument', message);
}
