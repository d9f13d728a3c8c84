import { builtinModelPath } from '../../../../shared/artifacts/index.ts';
import {
  FakeEngineServer,
  type Received,
  sendJson,
  startEvents,
  writeEvent,
} from '../../engines/fake-engine-server.ts';

export const CHATS = '/v1/chat/completions';

type Json = Readonly<Record<string, unknown>>;

/** Part of an answer: the delta of one choice, the first if none is named. */
export type Delta = Json & { readonly choice?: number; readonly logprobs?: unknown };

/** Answer of the scripted engine to one chat. */
export interface Script {
  readonly deltas: readonly Delta[];
  /** @default 'stop' */
  readonly finish?: string;
  /** @default { prompt_tokens: 5, completion_tokens: 7 } */
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number };
  /** Whether the stream stays open after the deltas. @default false */
  readonly isOpen?: boolean;
}

const GENERATE = '/inference/v1/generate';

/** Describes the server as vLLM does. */
function describeVllm(server: FakeEngineServer): void {
  const root = builtinModelPath();
  const model = { id: 'tiny', object: 'model', owned_by: 'vllm', root, parent: null, max_model_len: 2048 };
  server
    .json('GET /v1/models', { object: 'list', data: [model] })
    .json('GET /version', { version: '0.33.0' })
    .json('GET /openapi.json', { paths: { [CHATS]: {}, [GENERATE]: {}, '/v1/completions': {} } })
    .on('GET /metrics', ({ response }) => void response.end('vllm:cache_config_info{block_size="16"} 1\n'));
}

/** Describes the server as SGLang does. */
function describeSglang(server: FakeEngineServer): void {
  const model_path = builtinModelPath();
  server
    .json('GET /v1/models', { object: 'list', data: [{ id: 'tiny', owned_by: 'sglang', max_model_len: 2048 }] })
    .json('GET /model_info', { model_path, served_model_name: 'tiny', is_generation: true })
    .json('GET /server_info', { version: '0.5.23', page_size: 16, disaggregation_mode: 'null' })
    .json('GET /openapi.json', { paths: { [CHATS]: {}, '/generate': {} } })
    .on('GET /metrics', ({ response }) => void response.end(''))
    .json('POST /abort_request', {});
}

/** A server that describes itself as an engine does, with the built-in model, and answers chats by a script. */
export class ScriptedEngine extends FakeEngineServer {
  script: Script = { deltas: [{ content: 'hi' }] };

  constructor(kind: 'vllm' | 'sglang') {
    super();
    if (kind === 'vllm') describeVllm(this);
    else describeSglang(this);
    this.on(`POST ${GENERATE}`, (received) => this.#generate(received));
    this.on(`POST ${CHATS}`, (received) => this.#chat(received));
  }

  /** Bodies of the chats that came, without the name of the model. */
  get chats(): readonly Json[] {
    return this.of(`POST ${CHATS}`).map(({ body: { model: _, ...rest } }) => rest);
  }

  #generate({ body, response }: Received): void {
    const choice = { index: 0, token_ids: [7], finish_reason: 'length' };
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    if (body.stream !== true) {
      sendJson(response, 200, { choices: [choice], usage });
      return;
    }
    startEvents(response);
    writeEvent(response, { choices: [choice] });
    writeEvent(response, { choices: [], usage });
    writeEvent(response, '[DONE]');
    response.end();
  }

  #chat({ body, response }: Received): void {
    const { deltas, finish = 'stop', isOpen = false } = this.script;
    const { prompt_tokens, completion_tokens } = this.script.usage ?? { prompt_tokens: 5, completion_tokens: 7 };
    const usage = { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
    const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'tiny' };
    if (body.stream !== true) {
      const choices = whole(deltas).map((choice) => ({ ...choice, finish_reason: finish }));
      sendJson(response, 200, { ...head, object: 'chat.completion', choices, usage });
      return;
    }
    startEvents(response);
    for (const { choice: index = 0, logprobs = null, ...delta } of deltas) {
      writeEvent(response, { ...head, choices: [{ index, delta, logprobs, finish_reason: null }] });
    }
    if (isOpen) return;
    for (const index of indexesOf(deltas)) {
      writeEvent(response, { ...head, choices: [{ index, delta: {}, finish_reason: finish }] });
    }
    writeEvent(response, { ...head, choices: [], usage });
    writeEvent(response, '[DONE]');
    response.end();
  }
}

function indexesOf(deltas: readonly Delta[]): readonly number[] {
  return [...new Set(deltas.map(({ choice = 0 }) => choice))].sort();
}

/** Joins the deltas of each choice to its message. */
function whole(deltas: readonly Delta[]): readonly Json[] {
  return indexesOf(deltas).map((index) => {
    const own = deltas.filter(({ choice = 0 }) => choice === index);
    const text = (name: string) => own.map((delta) => delta[name] ?? '').join('') || null;
    const calls = own.flatMap(({ tool_calls: list }) => (Array.isArray(list) ? (list as Json[]) : []));
    const thoughts = { reasoning: text('reasoning'), reasoning_content: text('reasoning_content') };
    const message = { role: 'assistant', content: text('content'), ...thoughts, tool_calls: calls };
    return { index, message, logprobs: own.find(({ logprobs }) => logprobs)?.logprobs ?? null };
  });
}
