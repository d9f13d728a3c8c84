import { LIMITS, overLimit, type ServeError, workerError } from '../../errors/index.ts';
import { isRecord } from '../../records/index.ts';
import type { EngineInput, EngineRequest, RoutingHints } from './engine-request.ts';

/**
 * Record of an OPEN frame for one `EngineRequest`: Dynamo's names, absent fields omitted. Prompt token ids are not in
 * it: they travel as the frame's raw u32 tail.
 */
export interface EngineRequestRecord {
  readonly body: Readonly<Record<string, unknown>>;
  readonly tokenIds: Uint32Array | undefined;
}

const NO_TOKENS = new Uint32Array(0);

const SHAPES = {
  object: isRecord,
  list: Array.isArray,
  text: (value) => typeof value === 'string',
  number: (value) => typeof value === 'number',
  flag: (value) => typeof value === 'boolean',
  any: () => true,
} as const satisfies Readonly<Record<string, (value: unknown) => boolean>>;

/** Fields whose name in the record differs only in spelling, with the required kind of their value. */
const FIELDS = [
  ['eosTokenIds', 'eos_token_ids', 'list'],
  ['stop', 'stop_conditions', 'object'],
  ['sampling', 'sampling_options', 'object'],
  ['output', 'output_options', 'object'],
  ['routing', 'routing', 'object'],
  ['annotations', 'annotations', 'list'],
  ['routerConfigOverride', 'router_config_override', 'object'],
  ['mdcSum', 'mdc_sum', 'text'],
  ['prefillResult', 'prefill_result', 'object'],
  ['bootstrapInfo', 'bootstrap_info', 'object'],
  ['encoderResult', 'encoder_result', 'object'],
  ['multiModalData', 'multi_modal_data', 'object'],
  ['mmRoutingInfo', 'mm_routing_info', 'any'],
  ['mmProcessorKwargs', 'mm_processor_kwargs', 'object'],
  ['extraArgs', 'extra_args', 'object'],
  ['requireReasoning', 'require_reasoning', 'flag'],
  ['router', 'router', 'object'],
  ['agentContext', 'agent_context', 'object'],
  ['requestTimestampMs', 'request_timestamp_ms', 'number'],
  ['embedding', 'embedding', 'object'],
  ['isHealthCheck', '_HEALTH_CHECK', 'flag'],
] as const satisfies readonly (readonly [keyof EngineRequest, string, keyof typeof SHAPES])[];

/** Encodes a request. @param dpRank rank chosen by the router @default the rank in the request's own hint */
export function encodeEngineRequest(request: EngineRequest, dpRank?: number): EngineRequestRecord {
  const body: Record<string, unknown> = { model: request.model };
  for (const [ours, theirs, shape] of FIELDS) {
    const value = request[ours];
    const isLeftOut = value === undefined || (shape === 'flag' && value === false);
    if (!isLeftOut) body[theirs] = value;
  }
  body.routing = hintsFor(request.routing, dpRank);
  switch (request.input.kind) {
    case 'tokens':
      if (request.input.promptEmbeds !== undefined) body.prompt_embeds = request.input.promptEmbeds;
      return { body, tokenIds: request.input.tokenIds };
    case 'text':
      body.text_input = { endpoint: request.input.endpoint, body: request.input.body };
      return { body, tokenIds: undefined };
    case 'tensor':
      body.tensor_input = request.input.body;
      return { body, tokenIds: undefined };
  }
}

/**
 * Returns the hints for a worker. Only the router needs sessions and cache keys; workers read the session in
 * `agent_context`.
 */
function hintsFor(routing: RoutingHints, dpRank: number | undefined): RoutingHints {
  const placed = dpRank === undefined || dpRank === routing.dp_rank ? routing : { ...routing, dp_rank: dpRank };
  if (placed.session_id === undefined && placed.prompt_cache_key === undefined) return placed;
  const { session_id: _session, prompt_cache_key: _key, ...hints } = placed;
  return hints;
}

/**
 * Decodes what `encodeEngineRequest` wrote. Unknown keys are ignored, so that an older worker serves a newer frontend.
 *
 * @throws ServeError `invalid_value` that names a field of the wrong shape; the engine checks the content of a field.
 */
export function decodeEngineRequest(
  id: string,
  body: Readonly<Record<string, unknown>>,
  tokenIds: Uint32Array | undefined,
): EngineRequest {
  const request: Record<string, unknown> = {
    id,
    model: typeof body.model === 'string' ? body.model : '',
    input: decodeInput(body, tokenIds),
    stop: {},
    sampling: {},
    output: {},
    eosTokenIds: [],
    routing: {},
    annotations: [],
  };
  for (const [ours, theirs, shape] of FIELDS) {
    const value = body[theirs];
    if (value === undefined || value === null) continue;
    if (!SHAPES[shape](value)) throw wrongShape(theirs);
    request[ours] = value;
  }
  requireChoices((request.sampling as EngineRequest['sampling']).n);
  return request as unknown as EngineRequest; // every required field is set above; the rest is optional
}

/**
 * Checks the number of choices: each has a text, a place and a sequence of its own from the start. @throws ServeError
 * `invalid_value`
 */
function requireChoices(n: unknown): void {
  if (n === undefined || n === null) return;
  if (Number.isInteger(n) && (n as number) >= 0 && (n as number) <= LIMITS.choices.max) return;
  const message = `sampling_options.n must be an integer of at most ${LIMITS.choices.max}, got ${String(n).slice(0, 40)}`;
  throw overLimit('choices', message, { param: 'sampling_options', worker: 'InvalidArgument' });
}

function decodeInput(body: Readonly<Record<string, unknown>>, tokenIds: Uint32Array | undefined): EngineInput {
  const { prompt_embeds: embeds, tensor_input: tensor, text_input: text } = body;
  if (text !== undefined && text !== null) {
    if (!isRecord(text) || !isRecord(text.body) || typeof text.endpoint !== 'string') throw wrongShape('text_input');
    return { kind: 'text', endpoint: text.endpoint, body: text.body };
  }
  if (tensor !== undefined && tensor !== null) {
    if (!isRecord(tensor)) throw wrongShape('tensor_input');
    return { kind: 'tensor', body: tensor };
  }
  const prompt = { kind: 'tokens', tokenIds: tokenIds ?? NO_TOKENS } as const;
  if (embeds === undefined || embeds === null) return prompt;
  if (typeof embeds !== 'string') throw wrongShape('prompt_embeds');
  return { ...prompt, promptEmbeds: embeds };
}

function wrongShape(field: string): ServeError {
  return workerError('InvalidArgument', `${field} has the wrong type`, { param: field });
}

/** Inputs that a worker takes, from its card. */
export interface ProbedModel {
  readonly model: string;
  readonly input: 'Tokens' | 'Text' | 'Tensor';
  /** Routes that the model serves, by their names in its card. */
  readonly types: readonly string[];
  /** Token that texts of the model begin with. @default 1, which nearly all vocabularies have */
  readonly bosTokenId?: number | undefined;
}

const ANY_TOKEN = 1;

/**
 * Returns the smallest request that proves that an engine works: one greedy token after the token that texts begin
 * with. Prefill engines get tokens even if their prompts are text: the decode worker has read them by then. Undefined
 * for models whose requests are too expensive for a probe: images, videos, embeddings, tensors.
 *
 * @param payload record instead of the model's own, with `token_ids` inside it (`DYN_HEALTH_CHECK_PAYLOAD`)
 * @throws ServeError `invalid_value` that names a field of `payload` of the wrong shape
 */
export function healthCheckRequest(
  id: string,
  { model, input, types, bosTokenId = ANY_TOKEN }: ProbedModel,
  payload?: Readonly<Record<string, unknown>>,
): EngineRequest | undefined {
  if (payload !== undefined) return { ...ownRequest(id, model, payload), isHealthCheck: true };
  const asked = probeInput({ model, input, types }, bosTokenId);
  if (asked === undefined) return undefined;
  return {
    id,
    model,
    input: asked,
    stop: { max_tokens: 1 },
    sampling: { temperature: 0 },
    output: {},
    eosTokenIds: [],
    routing: {},
    annotations: [],
    isHealthCheck: true,
  };
}

function probeInput({ model, input, types }: ProbedModel, bosTokenId: number): EngineInput | undefined {
  const isPrefill = types.includes('Prefill');
  if (input === 'Tensor' || !(isPrefill || types.includes('Chat') || types.includes('Completions'))) return undefined;
  if (input === 'Text' && !isPrefill) return textInput(model, types);
  return { kind: 'tokens', tokenIds: Uint32Array.of(bosTokenId) };
}

function textInput(model: string, types: readonly string[]): EngineInput {
  const common = { model, max_tokens: 1, temperature: 0 };
  if (types.includes('Completions')) {
    return { kind: 'text', endpoint: 'completions', body: { ...common, prompt: 'Test' } };
  }
  return {
    kind: 'text',
    endpoint: 'chat_completions',
    body: { ...common, messages: [{ role: 'user', content: 'Test' }] },
  };
}

/** Decodes a configured probe. A record without token ids is the body of a text request. */
function ownRequest(id: string, model: string, payload: Readonly<Record<string, unknown>>): EngineRequest {
  const { token_ids: ids, ...rest } = payload;
  if (Array.isArray(ids)) return decodeEngineRequest(id, { model, ...rest }, Uint32Array.from(ids));
  const endpoint = 'messages' in payload ? 'chat_completions' : 'completions';
  return decodeEngineRequest(id, { model, text_input: { endpoint, body: { model, ...payload } } }, undefined);
}
