import { ServeError, workerError } from '../../errors/index.ts';
import { asRecord, asU64, isRecord, type UnknownRecord } from '../../records/index.ts';
import { RELEASE_PREFILL } from '../generation/engine-request.ts';
import { idToWire, wireU64 } from './u64.ts';

/** Fields that both records have with the same name and content. */
const SAME = [
  'prompt_embeds',
  'multi_modal_data',
  'stop_conditions',
  'output_options',
  'router_config_override',
  'prefill_result',
  'encoder_result',
  'mm_processor_kwargs',
  'require_reasoning',
  'router',
  'agent_context',
  'request_timestamp_ms',
  '_HEALTH_CHECK',
] as const;

/** Hints that name instances. Dynamo writes ids as integers. */
const ID_HINTS = ['backend_instance_id', 'prefill_worker_id', 'decode_worker_id'] as const;

/** Hints with the same name and content in both records. The others are only for Stator's own router. */
const SAME_HINTS = [
  'dp_rank',
  'prefill_dp_rank',
  'expected_output_tokens',
  'lora_name',
  'cache_salt',
  'priority_jump',
  'strict_priority',
  'priority',
  'routing_constraints',
] as const;

/** Endpoints whose body asks for a stream. Dynamo's workers answer them only so. */
const STREAMED: ReadonlySet<unknown> = new Set(['chat_completions', 'completions']);

/**
 * Returns a request as Dynamo's workers read it (`PreprocessedRequest`): a plain object for JSON or msgpack, in which
 * integers above 2^53 are bigint. The body of a text request becomes the request itself, as Dynamo sends it.
 *
 * @param body what `encodeEngineRequest` made
 * @param tokenIds prompt; absent for text and tensors
 * @throws ServeError `invalid_value` that names a field of the wrong shape. It is `unsupported_parameter` for a
 *   parameter without a place in the record, and `not_implemented` for the release of a prefill.
 */
export function toPreprocessedRequest(body: unknown, tokenIds: Uint32Array | undefined): Record<string, unknown> {
  if (!isRecord(body)) throw wrongShape('request');
  const annotations = listIn(body, 'annotations');
  if (annotations.includes(RELEASE_PREFILL)) {
    throw workerError('NotImplemented', "Dynamo's prefill workers release blocks by their own time-out");
  }
  if (body.text_input != null) return textRequest(body);
  if (body.tensor_input != null) return { ...recordIn(body, 'tensor_input') };
  if (body.embedding != null) return embeddingRequest(body, tokenIds, annotations);
  const request: Record<string, unknown> = {
    model: body.model,
    token_ids: idList(tokenIds),
    stop_conditions: {},
    sampling_options: samplingOptions(body),
    output_options: {},
    eos_token_ids: listIn(body, 'eos_token_ids'),
    annotations,
  };
  for (const name of SAME) if (body[name] != null) request[name] = body[name];
  const routing = recordIn(body, 'routing');
  const hints = routingHints(routing);
  if (hints !== undefined) request.routing = hints;
  const extra = extraArgs(body, routing);
  if (extra !== undefined) request.extra_args = extra;
  if (body.bootstrap_info != null) request.bootstrap_info = bootstrapInfo(recordIn(body, 'bootstrap_info'));
  return request;
}

/** Returns the prompt as a list of numbers: codecs write typed arrays as bytes or as objects. */
function idList(tokenIds: Uint32Array | undefined): number[] {
  const count = tokenIds?.length ?? 0;
  const list = new Array<number>(count);
  for (let at = 0; at < count; at++) list[at] = tokenIds?.[at] as number; // within its length
  return list;
}

function samplingOptions(body: UnknownRecord): UnknownRecord {
  const options = recordIn(body, 'sampling_options');
  const { logit_bias: bias } = options;
  if (bias == null || Object.keys(bias).length === 0) return options;
  const message = "logit_bias has no place in the requests of Dynamo's workers";
  throw new ServeError('unsupported_parameter', message, { param: 'logit_bias' });
}

function routingHints(routing: UnknownRecord): UnknownRecord | undefined {
  const hints: Record<string, unknown> = {};
  for (const name of ID_HINTS) if (routing[name] != null) hints[name] = idOf(routing[name], name);
  for (const name of SAME_HINTS) if (routing[name] != null) hints[name] = routing[name];
  const allowed = routing.allowed_worker_ids;
  if (allowed != null) {
    hints.allowed_worker_ids = listIn(routing, 'allowed_worker_ids').map((id) => idOf(id, 'allowed_worker_ids'));
  }
  for (const _name in hints) return hints;
  return undefined;
}

function idOf(hexId: unknown, name: string): number | bigint {
  const id = idToWire(hexId);
  if (id === undefined) throw wrongShape(`routing.${name}`);
  return id;
}

/** Adds the salt of the cache, which Dynamo's engines read from the client's extensions, and its router from a hint. */
function extraArgs(body: UnknownRecord, { cache_salt }: UnknownRecord): UnknownRecord | undefined {
  const given = body.extra_args == null ? undefined : recordIn(body, 'extra_args');
  if (cache_salt == null) return given;
  return { ...given, nvext: { ...asRecord(given?.nvext), cache_salt } };
}

function bootstrapInfo(info: UnknownRecord): UnknownRecord {
  const room = asU64(info.bootstrap_room);
  if (room === undefined) throw wrongShape('bootstrap_info.bootstrap_room');
  return { ...info, bootstrap_room: wireU64(room), handoff_id: handoffId(room) };
}

/**
 * Returns the id that workers of 1.6 and later require of both halves of a request: the bytes of a UUID. Both halves
 * have the same room, so they get the same id. It is of version 8, whose content is free.
 */
function handoffId(room: bigint): Uint8Array {
  const id = Buffer.alloc(16);
  id.writeUIntBE(Number(room >> 16n), 0, 6);
  id[6] = 0x80;
  id[8] = 0x80;
  id.writeUInt16BE(Number(room & 0xffffn), 14);
  return id;
}

/** Returns the client's own body, with the hints that an engine follows. */
function textRequest(body: UnknownRecord): Record<string, unknown> {
  const text = recordIn(body, 'text_input');
  const request: Record<string, unknown> = { ...recordIn(text, 'body') };
  if (STREAMED.has(text.endpoint)) request.stream = true;
  const hints = routingHints(recordIn(body, 'routing'));
  if (hints !== undefined) request.routing = hints;
  return request;
}

/** Returns the request for the embedding of one prompt; Dynamo's record takes several. */
function embeddingRequest(
  body: UnknownRecord,
  tokenIds: Uint32Array | undefined,
  annotations: readonly unknown[],
): Record<string, unknown> {
  const { dimensions } = recordIn(body, 'embedding');
  return {
    model: body.model,
    token_ids: [idList(tokenIds)],
    encoding_format: 'base64',
    dimensions: dimensions ?? null,
    mdc_sum: null,
    annotations,
  };
}

function recordIn(body: UnknownRecord, name: string): UnknownRecord {
  const value = body[name] ?? {};
  if (!isRecord(value)) throw wrongShape(name);
  return value;
}

function listIn(body: UnknownRecord, name: string): readonly unknown[] {
  const value = body[name] ?? [];
  if (!Array.isArray(value)) throw wrongShape(name);
  return value;
}

function wrongShape(field: string): ServeError {
  return workerError('InvalidArgument', `${field} has the wrong type`, { param: field });
}
