import { LIMITS, type ServeError, workerError } from '../../errors/index.ts';
import { asRecord, asU64, asWholeNumber, isRecord, type UnknownRecord } from '../../records/index.ts';

/** A request in the form that `decodeEngineRequest` reads. */
export interface ReadRequest {
  readonly body: unknown;
  readonly tokenIds: Uint32Array | undefined;
  /** Prompts of a request for embeddings that has several. @default none */
  readonly prompts?: readonly Uint32Array[];
}

/** Fields that both records have with the same name and content. */
const SAME = [
  'model',
  'prompt_embeds',
  'multi_modal_data',
  'eos_token_ids',
  'annotations',
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

const U32_MAX = 0xffff_ffff;

/** Names of instances among the hints: integers in Dynamo's record, hex in Stator's. */
const ID_HINTS = ['backend_instance_id', 'prefill_worker_id', 'decode_worker_id'] as const;

/**
 * Reads a request as a frontend of Dynamo sends it: `PreprocessedRequest`, the request for embeddings, or the client's
 * own body for a worker that takes text or tensors. Fields that are null are absent. A request to another endpoint is
 * returned as it is.
 *
 * @throws ServeError `invalid_value` that names a field of the wrong shape, or too many prompts for embeddings;
 *   `not_implemented` for the body of an engine's own API
 */
export function fromPreprocessedRequest(value: unknown): ReadRequest {
  if (!isRecord(value)) return { body: value, tokenIds: undefined };
  const { token_ids: ids } = value;
  if (ids === undefined || ids === null) return { body: textOrTensor(value), tokenIds: undefined };
  if (!Array.isArray(ids)) throw wrongShape('token_ids');
  if (Array.isArray(ids[0])) return embeddingRequest(value, ids);
  if (value.generate_request != null) {
    throw workerError('NotImplemented', "generate_request, the body of an engine's own API, is not supported");
  }
  return { body: tokenRequest(value), tokenIds: tokenIdsOf(ids) };
}

function tokenRequest(value: UnknownRecord): UnknownRecord {
  const body: Record<string, unknown> = {};
  for (const name of SAME) if (value[name] != null) body[name] = value[name];
  body.stop_conditions = withoutNulls(recordIn(value, 'stop_conditions'));
  body.output_options = withoutNulls(recordIn(value, 'output_options'));
  const sampling = withoutNulls(recordIn(value, 'sampling_options'));
  const guided = asRecord(sampling.guided_decoding);
  body.sampling_options = guided === undefined ? sampling : { ...sampling, guided_decoding: withoutNulls(guided) };
  const extra = value.extra_args == null ? undefined : recordIn(value, 'extra_args');
  if (extra !== undefined) body.extra_args = extra;
  body.routing = routingOf(recordIn(value, 'routing'), extra);
  if (value.bootstrap_info != null) body.bootstrap_info = bootstrapOf(recordIn(value, 'bootstrap_info'));
  return body;
}

/** Wraps a body that no tokenizer has read. Its kind shows in the fields that only this kind has. */
function textOrTensor(value: UnknownRecord): UnknownRecord {
  const { model, routing: _, ...body } = value;
  if (Array.isArray(value.tensors)) return { model, tensor_input: value };
  const endpoint = endpointOf(value);
  if (endpoint === undefined) return value;
  return {
    model,
    routing: routingOf(recordIn(value, 'routing'), undefined),
    text_input: { endpoint, body: { model, ...body } },
  };
}

function endpointOf(value: UnknownRecord): string | undefined {
  if (Array.isArray(value.messages)) return 'chat_completions';
  if (value.input != null) return 'embeddings';
  return value.prompt == null ? undefined : 'completions';
}

function embeddingRequest(value: UnknownRecord, prompts: readonly unknown[]): ReadRequest {
  const { max } = LIMITS.embedding_inputs;
  if (prompts.length > max) {
    const says = `token_ids holds ${prompts.length} prompts, more than ${max}`;
    throw workerError('InvalidArgument', says, { param: 'token_ids' });
  }
  const { model, dimensions } = value;
  const body = { model, annotations: value.annotations ?? [], embedding: dimensions == null ? {} : { dimensions } };
  const [first, ...others] = prompts.map((ids) => {
    if (!Array.isArray(ids)) throw wrongShape('token_ids');
    return tokenIdsOf(ids);
  });
  if (first === undefined || others.length === 0) return { body, tokenIds: first };
  return { body, tokenIds: undefined, prompts: [first, ...others] };
}

function tokenIdsOf(ids: readonly unknown[]): Uint32Array {
  const tokenIds = new Uint32Array(ids.length);
  for (let at = 0; at < ids.length; at++) {
    const id = ids[at];
    if (!Number.isInteger(id) || (id as number) < 0 || (id as number) > U32_MAX) throw wrongShape('token_ids');
    tokenIds[at] = id as number;
  }
  return tokenIds;
}

/** Reads the hints. An id that is not exact is left out: the request has arrived already. */
function routingOf(routing: UnknownRecord, extra: UnknownRecord | undefined): UnknownRecord {
  const { allowed_worker_ids: _, ...rest } = withoutNulls(routing);
  const hints: Record<string, unknown> = { ...rest };
  for (const name of ID_HINTS) {
    const id = asU64(routing[name]);
    delete hints[name];
    if (id !== undefined) hints[name] = id.toString(16);
  }
  const salt = routing.cache_salt ?? asRecord(extra?.nvext)?.cache_salt; // engines of Dynamo read it there
  if (typeof salt === 'string') hints.cache_salt = salt;
  return hints;
}

function bootstrapOf(info: UnknownRecord): UnknownRecord {
  const room = asU64(info.bootstrap_room);
  if (room === undefined) throw wrongShape('bootstrap_info.bootstrap_room');
  if (asWholeNumber(info.bootstrap_port, 65_535) === undefined) throw wrongShape('bootstrap_info.bootstrap_port');
  const { handoff_id: _, ...own } = withoutNulls(info); // Stator's engines know both halves by their room
  return { ...own, bootstrap_room: String(room) };
}

function recordIn(value: UnknownRecord, name: string): UnknownRecord {
  const found = value[name] ?? {};
  if (!isRecord(found)) throw wrongShape(name);
  return found;
}

function withoutNulls(record: UnknownRecord): Record<string, unknown> {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== null && value !== undefined));
}

function wrongShape(field: string): ServeError {
  return workerError('InvalidArgument', `${field} has the wrong type`, { param: field });
}
