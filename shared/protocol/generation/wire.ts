import type { EngineInput, EngineRequest } from './engine-request.ts';

/**
 * The record of an OPEN frame for one `EngineRequest`: Dynamo's names, absent fields omitted. Prompt token ids are not in
 * it: they ride as the frame's raw u32 tail (runtime-and-workers.md, sections 2.6 and 4.1).
 */
export interface EngineRequestRecord {
  readonly body: Readonly<Record<string, unknown>>;
  readonly tokenIds: Uint32Array | undefined;
}

const NO_TOKENS = new Uint32Array(0);

/** Fields whose record name differs from ours only in spelling. */
const RENAMED = [
  ['eosTokenIds', 'eos_token_ids'],
  ['stop', 'stop_conditions'],
  ['sampling', 'sampling_options'],
  ['output', 'output_options'],
  ['routing', 'routing'],
  ['annotations', 'annotations'],
  ['routerConfigOverride', 'router_config_override'],
  ['mdcSum', 'mdc_sum'],
  ['prefillResult', 'prefill_result'],
  ['bootstrapInfo', 'bootstrap_info'],
  ['encoderResult', 'encoder_result'],
  ['migrationLink', 'migration_link'],
  ['multiModalData', 'multi_modal_data'],
  ['mmRoutingInfo', 'mm_routing_info'],
  ['mmProcessorKwargs', 'mm_processor_kwargs'],
  ['extraArgs', 'extra_args'],
  ['requireReasoning', 'require_reasoning'],
  ['router', 'router'],
  ['agentContext', 'agent_context'],
  ['requestTimestampMs', 'request_timestamp_ms'],
  ['isHealthCheck', '_HEALTH_CHECK'],
] as const satisfies readonly (readonly [keyof EngineRequest, string])[];

export function encodeEngineRequest(request: EngineRequest): EngineRequestRecord {
  const body: Record<string, unknown> = { model: request.model };
  for (const [ours, theirs] of RENAMED) {
    const value = request[ours];
    if (value !== undefined) body[theirs] = value;
  }
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

/** The inverse of `encodeEngineRequest`. Unknown keys are ignored, so that an older worker serves a newer frontend. */
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
  for (const [ours, theirs] of RENAMED) {
    const value = body[theirs];
    if (value !== undefined && value !== null) request[ours] = value;
  }
  return request as unknown as EngineRequest; // every required field is set above; the rest is optional
}

function decodeInput(body: Readonly<Record<string, unknown>>, tokenIds: Uint32Array | undefined): EngineInput {
  const text = body.text_input;
  if (isRecord(text) && isRecord(text.body)) {
    return { kind: 'text', endpoint: String(text.endpoint), body: text.body };
  }
  const tensor = body.tensor_input;
  if (isRecord(tensor)) return { kind: 'tensor', body: tensor };
  const embeds = body.prompt_embeds;
  return {
    kind: 'tokens',
    tokenIds: tokenIds ?? NO_TOKENS,
    ...(typeof embeds === 'string' ? { promptEmbeds: embeds } : {}),
  };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
