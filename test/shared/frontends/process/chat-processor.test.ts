import { mkdtempSync, rmSync } from 'node:fs';
import { cp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { builtinModelPath } from '../../../../shared/artifacts/index.ts';
import { SYSTEM } from '../../../../shared/clock/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { composeFrontend } from '../../../../shared/frontends/index.ts';
import { captureLogger, silentLogger } from '../../../../shared/telemetry/log/logger.ts';
import { startWorkerProcess, type WorkerProcess } from '../../../../shared/worker/process/worker.ts';
import { waitUntil } from '../../../support/index.ts';
import { CHATS, type Delta, ScriptedEngine } from './scripted-engine.ts';

// Workers of scripted engines and a mock engine in this process, and what the clients of a frontend see beside them.

const folder = mkdtempSync(join(tmpdir(), 'stator-processors-'));
const ENV = {
  DYN_DISCOVERY_BACKEND: 'file',
  DYN_FILE_KV: join(folder, 'kv'),
  DYN_TCP_RPC_HOST: '127.0.0.1',
  DYN_EVENT_PLANE_HOST: '127.0.0.1',
};
const MESSAGES = [{ role: 'user', content: 'Is it warm?' }];
const TOOLS = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }];
const CALL = { index: 0, id: 'call-1', type: 'function', function: { name: 'look', arguments: '{"at":"sky"}' } };

const vllm = new ScriptedEngine('vllm');
const sglang = new ScriptedEngine('sglang');
const pair = [new ScriptedEngine('vllm'), new ScriptedEngine('vllm')];
const workers: WorkerProcess[] = [];

async function startWorker(...flags: readonly string[]): Promise<void> {
  const config = resolveConfig('worker', [...flags, '--model-name=m'], ENV);
  workers.push(await startWorkerProcess(config, SYSTEM, silentLogger, AbortSignal.timeout(20_000)));
}

beforeAll(async () => {
  for (const each of [vllm, sglang, ...pair]) await each.start();
  await startWorker('--engine=vllm', `--engine-url=${vllm.url}`, '--namespace=vllm');
  await startWorker('--engine=sglang', `--engine-url=${sglang.url}`, '--namespace=sglang');
  for (const { url } of pair) await startWorker('--engine=vllm', `--engine-url=${url}`, '--namespace=pair');
  await startWorker('--engine=mocker', '--namespace=mock', '--speedup-ratio=100');
});
beforeEach(() => {
  vllm.script = { deltas: [{ content: 'hi' }] };
  vllm.received.splice(0);
});
afterAll(async () => {
  for (const worker of workers) await worker.drain();
  for (const each of [vllm, sglang, ...pair]) await each.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Bed {
  readonly lines: readonly { readonly level: string; readonly message: string; readonly fields: object }[];
  get(path: string): Promise<Response>;
  post(path: string, body: object, signal?: AbortSignal): Promise<Response>;
}

/** What `see` sees of a frontend with these flags, once it serves the model or has refused it. */
async function look<T>(
  flags: readonly string[],
  see: (bed: Bed) => Promise<T>,
  env: Readonly<Record<string, string>> = {},
): Promise<T> {
  const { settings } = resolveConfig('frontend', [...flags, '--enable-anthropic-api'], { ...ENV, ...env });
  const { logger, lines } = captureLogger();
  const frontend = await composeFrontend(settings, { ...SYSTEM, logger });
  const ask = (path: string, init: RequestInit) =>
    frontend.app.fetch(new Request(`http://localhost${path}`, init), { peer: '127.0.0.1' });
  const headers = { 'content-type': 'application/json' };
  try {
    const isSettled = () => lines.some(({ message }) => /^model is (not )?served/.test(message));
    await frontend.models.until(isSettled, AbortSignal.timeout(10_000)).catch(() => {});
    return await see({
      lines,
      get: (path) => ask(path, {}),
      post: (path, body, signal) =>
        ask(path, { method: 'POST', headers, body: JSON.stringify(body), ...(signal === undefined ? {} : { signal }) }),
    });
  } finally {
    await frontend.close();
  }
}

const LEFT = ['--namespace=vllm', '--dyn-chat-processor=vllm'];

function eventsOf(text: string): readonly Readonly<Record<string, unknown>>[] {
  const data = [...text.matchAll(/^data: (.*)$/gm)].map(([, json = '']) => json);
  return data.filter((json) => json !== '[DONE]').map((json) => JSON.parse(json) as Record<string, unknown>);
}

it('leaves chats to the engine of its workers with --dyn-chat-processor, and to none by default', async () => {
  const see = async ({ post }: Bed) => {
    vllm.received.splice(0);
    await (await post(CHATS, { model: 'm', messages: MESSAGES })).text();
    const text = await (await post('/v1/completions', { model: 'm', prompt: 'Once', max_tokens: 1 })).text();
    expect(text).toContain('"finish_reason":"length"');
    return vllm.received.filter(({ method }) => method === 'POST').map(({ path }) => path);
  };
  const generate = '/inference/v1/generate';
  expect(await look(LEFT, see)).toEqual([CHATS, generate]);
  expect(await look(['--namespace=vllm'], see)).toEqual([generate, generate]);
});

describe('a chat that is left to its engine', () => {
  const body = { model: 'm', messages: MESSAGES, tools: TOOLS, max_tokens: 64 };
  const deltas: readonly Delta[] = [
    { role: 'assistant', content: '' },
    { reasoning: 'I must ' },
    { reasoning: 'look.' },
    { content: 'Wait.' },
    { tool_calls: [{ ...CALL, function: { ...CALL.function, arguments: '' } }] },
    { tool_calls: [{ index: 0, function: { arguments: '{"at":"sky"}' } }] },
  ];

  it('reaches it as the client wrote it, and comes back with its reasoning, calls and usage', async () => {
    vllm.script = { deltas, finish: 'tool_calls' };
    await look(LEFT, async ({ post }) => {
      const more = { temperature: 0.5, response_format: { type: 'json_object' }, tool_choice: 'auto', seed: 4 };
      const response = await post(CHATS, { ...body, ...more, stream: true, stream_options: { include_usage: true } });
      const events = eventsOf(await response.text()) as { choices: { delta: object; finish_reason: unknown }[] }[];
      const [sent] = vllm.chats;
      const options = { stream: true, stream_options: { include_usage: true } };
      expect(sent).toEqual({ messages: MESSAGES, tools: TOOLS, max_tokens: 64, ...more, ...options });
      expect(events.flatMap(({ choices }) => choices.map(({ delta }) => delta))).toEqual([
        { role: 'assistant', content: '', reasoning_content: 'I must ' },
        { reasoning_content: 'look.' },
        { content: 'Wait.' },
        { tool_calls: [{ ...CALL, function: { name: 'look', arguments: '' } }] },
        { tool_calls: [{ index: 0, function: { arguments: '{"at":"sky"}' } }] },
        {},
      ]);
      expect(events.at(-2)?.choices[0]?.finish_reason).toBe('tool_calls');
      expect(events.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 7 } });
    });
  });

  it('is answered whole, with every choice and its log probabilities', async () => {
    const logprobs = { content: [{ token: 'a', logprob: -1, bytes: [97], top_logprobs: [] }] };
    vllm.script = {
      deltas: [
        { content: 'a', logprobs },
        { content: 'b', choice: 1 },
      ],
    };
    await look(LEFT, async ({ post }) => {
      const asked = { model: 'm', messages: MESSAGES, n: 2, logprobs: true };
      const answer = (await (await post(CHATS, asked)).json()) as { choices: object[]; usage: object };
      expect(vllm.chats).toEqual([{ messages: MESSAGES, n: 2, logprobs: true }]);
      expect(answer.choices).toMatchObject([
        { index: 0, message: { content: 'a' }, logprobs, finish_reason: 'stop' },
        { index: 1, message: { content: 'b' }, finish_reason: 'stop' },
      ]);
      expect(answer.usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 });
    });
  });

  it.each([true, false])('comes through the Responses and Messages APIs too (streamed: %s)', async (stream) => {
    vllm.script = { deltas, finish: 'tool_calls' };
    await look(LEFT, async ({ post }) => {
      const { name, parameters } = TOOLS[0]!.function;
      const tools = [{ type: 'function', name, parameters }];
      const response = await post('/v1/responses', { model: 'm', input: 'Is it warm?', tools, stream });
      const text = await response.text();
      const done = stream
        ? eventsOf(text).find(({ type }) => type === 'response.completed')?.response
        : JSON.parse(text);
      expect((done as { output: object[] }).output).toMatchObject([
        { type: 'reasoning', content: [{ text: 'I must look.' }] },
        { type: 'message', content: [{ text: 'Wait.' }] },
        { type: 'function_call', call_id: 'call-1', name: 'look', arguments: '{"at":"sky"}' },
      ]);
      const asked = { model: 'm', messages: MESSAGES, max_tokens: 64, stream };
      const anthropicTools = [{ name: 'look', input_schema: { type: 'object' } }];
      const answer = await (await post('/v1/messages', { ...asked, tools: anthropicTools })).text();
      const kinds = stream
        ? eventsOf(answer)
            .filter(({ type }) => type === 'content_block_start')
            .map((event) => event.content_block)
        : (JSON.parse(answer) as { content: unknown }).content;
      expect(kinds).toMatchObject([{ type: 'thinking' }, { type: 'text' }, { type: 'tool_use', name: 'look' }]);
      expect(answer).toContain('"stop_reason":"tool_use"');
      expect(vllm.chats.map(({ tools: sent }) => sent)).toMatchObject([TOOLS, TOOLS]);
      expect(vllm.chats[1]).not.toHaveProperty('chat_template_kwargs');
    });
  });

  it('leaves thinking to the engine, unless a client of the Messages API names it', async () => {
    await look(LEFT, async ({ post }) => {
      const asked = { model: 'm', messages: MESSAGES, max_tokens: 64 };
      for (const more of [{}, { thinking: { type: 'disabled' } }]) await post('/v1/messages', { ...asked, ...more });
      const args = vllm.chats.map(({ chat_template_kwargs }) => chat_template_kwargs);
      expect(args).toEqual([undefined, { thinking: false, enable_thinking: false, thinking_mode: 'disabled' }]);
    });
  });

  it('reaches SGLang under the id by which it is stopped, and comes back as from vLLM', async () => {
    const flags = ['--namespace=sglang', '--dyn-chat-processor=sglang'];
    const ours = deltas.map(({ reasoning, ...delta }) => ({ ...delta, reasoning_content: reasoning ?? null }));
    sglang.script = { deltas: ours, finish: 'tool_calls' };
    await look(flags, async ({ post }) => {
      const answer = (await (await post(CHATS, body)).json()) as { choices: object[] };
      expect(answer.choices).toMatchObject([
        { message: { content: 'Wait.', reasoning_content: 'I must look.' }, finish_reason: 'tool_calls' },
      ]);
      const [{ rid, ...sent } = {}] = sglang.chats;
      expect(sent).toEqual({ messages: MESSAGES, tools: TOOLS, max_tokens: 64 });
      sglang.script = { deltas: [{ content: 'hi' }], isOpen: true };
      const left = new AbortController();
      const response = await post(CHATS, { ...body, stream: true }, left.signal);
      await response.body?.getReader().read();
      left.abort();
      await waitUntil(() => sglang.of('POST /abort_request').length > 0);
      expect(sglang.of('POST /abort_request')[0]?.body).toEqual({ rid: sglang.chats[1]?.rid });
      expect(rid).not.toBe(sglang.chats[1]?.rid);
    });
  });

  it('is dropped at the engine when its client leaves', async () => {
    vllm.script = { deltas: [{ content: 'hi' }], isOpen: true };
    await look(LEFT, async ({ post }) => {
      const left = new AbortController();
      const response = await post(CHATS, { ...body, stream: true }, left.signal);
      await response.body?.getReader().read();
      left.abort();
      await vllm.of(`POST ${CHATS}`)[0]?.dropped;
    });
  });

  it('fails with the words of the engine', async () => {
    const error = {
      message: "This model's maximum context length is 2048 tokens.",
      type: 'BadRequestError',
      code: 400,
    };
    const answer = vllm.routes.get(`POST ${CHATS}`)!;
    vllm.json(`POST ${CHATS}`, { error }, 400);
    try {
      await look(LEFT, async ({ post }) => {
        const response = await post(CHATS, body);
        expect([response.status, await response.text()]).toEqual([400, expect.stringContaining(error.message)]);
      });
    } finally {
      vllm.on(`POST ${CHATS}`, answer);
    }
  });

  it('is routed by the tokens that this frontend makes of it', async () => {
    await look([...LEFT, '--router-mode=kv'], async ({ post }) => {
      const long = { model: 'm', messages: [{ role: 'user', content: 'a b c d e f g h i j '.repeat(20) }] };
      const explained = (await (await post('/router/explain', long)).json()) as Record<string, number>;
      expect(explained.blocks).toBe(Math.floor((explained.prompt_tokens ?? 0) / 16));
      expect(explained.blocks).toBeGreaterThan(10);
    });
  });

  it('goes to the worker that had its beginning before', async () => {
    const flags = ['--namespace=pair', '--dyn-chat-processor=vllm', '--router-mode=kv', '--no-router-kv-events'];
    await look(flags, async ({ post }) => {
      const texts = ['sun', 'moon', 'rain', 'wind'].map((word) => `${word} and more of it `.repeat(30));
      for (let turn = 0; turn < 4; turn++) {
        for (const text of texts) {
          const messages = [{ role: 'user', content: `${text}${turn}` }];
          await (await post(CHATS, { model: 'm', messages })).text();
        }
      }
      for (const text of texts) {
        const at = pair.map(({ chats }) => chats.filter((chat) => JSON.stringify(chat).includes(text)).length);
        expect(at.toSorted()).toEqual([0, 4]);
      }
    });
  });

  it('shows once that its engine counts other tokens than this frontend', async () => {
    await look(LEFT, async ({ post, lines }) => {
      const differing = () => lines.filter(({ message }) => message.startsWith('the engine makes another prompt'));
      await (await post(CHATS, body)).text();
      const [line] = differing();
      expect(line).toMatchObject({ level: 'warn', fields: { model: 'm', engine_tokens: 5 } });
      await (await post(CHATS, body)).text();
      expect(differing()).toHaveLength(1);
    });
  });

  it('shows nothing of the kind if both count the same', async () => {
    await look(LEFT, async ({ post, lines }) => {
      const asked = { model: 'm', messages: MESSAGES, max_tokens: 5 };
      const { input_tokens: tokens } = (await (await post('/v1/messages/count_tokens', asked)).json()) as {
        input_tokens: number;
      };
      vllm.script = { deltas: [{ content: 'hi' }], usage: { prompt_tokens: tokens, completion_tokens: 1 } };
      await (await post(CHATS, asked)).text();
      expect(tokens).toBeGreaterThan(5);
      expect(lines.filter(({ message }) => message.startsWith('the engine makes another prompt'))).toEqual([]);
    });
  });
});

it('serves chats, routed by load, of a model that this frontend cannot load', async () => {
  const model = join(folder, 'model');
  await cp(builtinModelPath(), model, { recursive: true });
  await startWorker('--engine=vllm', `--engine-url=${vllm.url}`, '--namespace=broken', `--model-path=${model}`);
  await rm(join(model, 'tokenizer.json'));
  const flags = ['--namespace=broken', '--dyn-chat-processor=vllm', '--router-mode=kv'];
  const env = { STATOR_ARTIFACTS_CACHE_DIR: join(folder, 'cache') };
  await look(
    flags,
    async ({ post }) => {
      const statusOf = async (path: string, body: object) => (await post(path, { model: 'm', ...body })).status;
      expect(await statusOf(CHATS, { messages: MESSAGES })).toBe(200);
      expect(await statusOf('/v1/completions', { prompt: 'Once', max_tokens: 1 })).toBe(503);
    },
    env,
  );
});

describe('a model whose workers cannot answer chats themselves', () => {
  it.each([
    ['vllm', 'mock', "its workers do not pass chats to vllm's own chat endpoint, to which this frontend leaves them"],
    ['sglang', 'vllm', 'its workers run vllm, and this frontend leaves chats to sglang'],
  ])('is not served by a frontend that leaves chats to %s (%s)', async (processor, namespace, said) => {
    const reason = `${said} (--dyn-chat-processor)`;
    await look([`--namespace=${namespace}`, `--dyn-chat-processor=${processor}`], async ({ get, post, lines }) => {
      await waitUntil(() => lines.some(({ message }) => message === 'model is not served'));
      const refused = lines.filter(({ message }) => message === 'model is not served');
      expect(refused).toMatchObject([{ level: 'warn', fields: { model: 'm', reason } }]);
      expect(await (await get('/health')).json()).toMatchObject({ refused: [{ model: 'm', reason }] });
      const message = `not served here: ${reason}.`;
      for (const path of [CHATS, '/v1/responses', '/v1/messages']) {
        const asked = { model: 'm', messages: MESSAGES, input: 'hi', max_tokens: 5 };
        const response = await post(path, asked);
        expect([path, response.status, await response.text()]).toEqual([path, 404, expect.stringContaining(message)]);
      }
      const known = await get('/v1/models/m');
      expect([known.status, await known.text()]).toEqual([404, expect.stringContaining(message)]);
      expect(await (await get('/v1/models')).json()).toMatchObject({ data: [] });
    });
  });
});
