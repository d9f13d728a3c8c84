import type { EngineInput, EngineRequest } from './engine-request.ts';
import { decodeEngineRequest } from './wire.ts';

/** What a worker takes, as its card says. */
export interface ProbedModel {
  readonly model: string;
  readonly input: 'Tokens' | 'Text' | 'Tensor';
  /** Routes that it serves, by the names of its card. */
  readonly types: readonly string[];
}

/** First token of models whose vocabulary is not known: nearly all have a token 1. */
const ANY_TOKEN = 1;

/**
 * The smallest request that proves an engine alive: one greedy token. Undefined for
 * models whose requests cost too much to be sent for nothing: images, videos, embeddings, tensors.
 *
 * @param payload record in place of the model's own, `token_ids` inside of it (`DYN_HEALTH_CHECK_PAYLOAD`)
 * @throws ServeError `invalid_value` that names a field of `payload` of the wrong shape
 */
export function healthCheckRequest(
  id: string,
  { model, input, types }: ProbedModel,
  payload?: Readonly<Record<string, unknown>>,
): EngineRequest | undefined {
  if (payload !== undefined) return { ...ownRequest(id, model, payload), isHealthCheck: true };
  const asked = input === 'Tokens' ? TOKENS : input === 'Text' ? textInput(model, types) : undefined;
  if (asked === undefined || !(types.includes('Chat') || types.includes('Completions') || types.includes('Prefill')))
    return undefined;
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

const TOKENS: EngineInput = { kind: 'tokens', tokenIds: Uint32Array.of(ANY_TOKEN) };

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

/** A record without token ids is the body of a text request. */
function ownRequest(id: string, model: string, payload: Readonly<Record<string, unknown>>): EngineRequest {
  const { token_ids: ids, ...rest } = payload;
  if (Array.isArray(ids)) return decodeEngineRequest(id, { model, ...rest }, Uint32Array.from(ids));
  const endpoint = 'messages' in payload ? 'chat_completions' : 'completions';
  return decodeEngineRequest(id, { model, text_input: { endpoint, body: { model, ...payload } } }, undefined);
}
