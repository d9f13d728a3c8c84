import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postJson, readChat, type SpawnedProcess, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';
import { installedVllms, vllmCommand, vllmName } from '../support/tools/vllm.ts';

const installed = await installedVllms();
/** It takes a minute of a core for each release, for which the plain run has no room. */
const isAskedFor = installed.length > 0 && process.env.STATOR_TEST_VLLM !== undefined;
const releases = installed.length === 0 ? [['vLLM', '']] : installed.map((folder) => [vllmName(folder), folder]);
const START_MS_MAX = 300_000;
const TEST_MS_MAX = 180_000;

const STORY = 'Once upon a time there was a rather long prompt, long enough to fill several blocks. '.repeat(12);
const CHAT = { model: 'chats', messages: [{ role: 'user', content: STORY }], max_tokens: 8, temperature: 0 };
/** A function that leaves a model no choice once it is called. */
const PAINT = {
  type: 'function',
  function: {
    name: 'paint',
    strict: true,
    parameters: {
      type: 'object',
      properties: { colour: { type: 'string', enum: ['red'] } },
      required: ['colour'],
      additionalProperties: false,
    },
  },
};

interface Whole {
  readonly choices: readonly {
    readonly finish_reason: string;
    readonly message: {
      readonly content: string | null;
      readonly tool_calls?: readonly { readonly function: { readonly name: string; readonly arguments: string } }[];
    };
    readonly logprobs?: { readonly content: readonly { readonly token: string; readonly logprob: number }[] };
  }[];
  readonly usage: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly prompt_tokens_details?: { readonly cached_tokens: number };
  };
}

describe.skipIf(!isAskedFor).each(releases)('chats that a real %s reads (npm run test:vllm)', (_, folder = '') => {
  const fleet = useFleet();
  let byEngine: StatorProcess;
  let byFrontend: StatorProcess;
  let worker: SpawnedProcess;

  beforeAll(async () => {
    byEngine = await fleet.frontend(['--router-mode=kv', '--dyn-chat-processor=vllm', '--enable-anthropic-api']);
    byFrontend = await fleet.frontend(['--router-mode=kv']);
    worker = spawnWorker();
    await worker.waitForOutput(/worker is ready/, START_MS_MAX);
    await fleet.untilWorkers(byEngine, 1, 'chats');
    await fleet.untilWorkers(byFrontend, 1, 'chats');
  }, START_MS_MAX + 30_000);

  afterAll(() => worker?.signal('SIGTERM'));

  function spawnWorker(): SpawnedProcess {
    const engine = ['--engine=vllm', `--engine-command=${vllmCommand(folder)}`, `--model=${join(folder, 'model')}`];
    const size = ['--block-size=32', '--num-gpu-blocks-override=512', '--max-num-seqs=8', '--max-model-len=4096'];
    /** vLLM 0.20 reports cached tokens only if it is asked to. */
    const usage = ['--enable-prompt-tokens-details'];
    const parsers = ['--enable-auto-tool-choice', '--tool-call-parser=hermes', ...usage];
    const small = ['--max-num-batched-tokens=4096', '--', '--enforce-eager', '--dtype=float32'];
    return fleet.spawn(['worker', ...engine, '--served-model-name=chats', ...size, ...parsers, ...small], {
      DYN_DISCOVERY_BACKEND: 'file',
      DYN_FILE_KV: fleet.fileKv,
      DYN_TCP_RPC_HOST: '127.0.0.1',
      DYN_EVENT_PLANE_HOST: '127.0.0.1',
      HF_HUB_OFFLINE: '1',
      VLLM_NO_USAGE_STATS: '1',
      VLLM_CPU_KVCACHE_SPACE: '1',
      OMP_NUM_THREADS: '1',
    });
  }

  const ask = async (frontend: StatorProcess, body: object): Promise<Whole> => {
    const response = await postJson(`${frontend.url}/v1/chat/completions`, { ...CHAT, ...body });
    const text = await response.text();
    expect(response.status, text).toBe(200);
    return JSON.parse(text) as Whole;
  };

  /** Returns the cached tokens of a chat. vLLM 0.20 leaves them out if there are none. */
  const cachedTokens = async (messages: readonly object[]): Promise<number> =>
    (await ask(byEngine, { messages })).usage.prompt_tokens_details?.cached_tokens ?? 0;

  it('answers as when the frontend renders the chat, streamed and whole', { timeout: TEST_MS_MAX }, async () => {
    const rendered = await ask(byFrontend, {});
    const read = await ask(byEngine, {});
    expect(read.choices[0]?.message.content).toBe(rendered.choices[0]?.message.content);
    expect(read.usage.prompt_tokens).toBe(rendered.usage.prompt_tokens);
    const streamed = await readChat(byEngine.url, CHAT);
    expect(streamed).toMatchObject({ text: read.choices[0]?.message.content, finishReason: 'length', isDone: true });
  });

  it('routes by the blocks that the engine has cached', { timeout: TEST_MS_MAX }, async () => {
    const messages = [{ role: 'user', content: `Another one. ${STORY}` }];
    expect(await cachedTokens(messages)).toBe(0);
    const overlap = async (): Promise<number> => {
      const response = await postJson(`${byEngine.url}/router/explain`, { ...CHAT, messages });
      const { candidates } = (await response.json()) as {
        readonly candidates: readonly { readonly overlap: { readonly device: number } }[];
      };
      return candidates[0]?.overlap.device ?? 0;
    };
    await waitUntil(async () => (await overlap()) >= 2, { what: 'its blocks in the index' });
    const known = await overlap();
    expect(await cachedTokens(messages)).toBe(32 * known);
  });

  it('hands on its calls, log probabilities and choices', { timeout: TEST_MS_MAX }, async () => {
    const short = { messages: [{ role: 'user', content: 'Paint it.' }] };
    const tools = { tools: [PAINT], tool_choice: { type: 'function', function: { name: 'paint' } } };
    /** A random model that takes the likeliest token writes the same spaces for ever. */
    const varied = { temperature: 1, seed: 7, max_tokens: 1000 };
    const answer = await ask(byEngine, { ...short, ...tools, ...varied });
    const [called] = answer.choices;
    expect(called?.message.tool_calls?.[0]?.function.name, JSON.stringify(answer)).toBe('paint');
    expect(JSON.parse(called?.message.tool_calls?.[0]?.function.arguments ?? '')).toEqual({ colour: 'red' });
    const several = await ask(byEngine, { ...short, n: 2, logprobs: true, top_logprobs: 2, temperature: 1 });
    expect(several.choices.map(({ logprobs }) => logprobs?.content.length)).toEqual([8, 8]);
    expect(several.usage.completion_tokens).toBe(16);
  });

  it('answers a Messages request', { timeout: TEST_MS_MAX }, async () => {
    const { choices } = await ask(byEngine, {});
    const response = await postJson(`${byEngine.url}/v1/messages`, CHAT);
    expect(await response.json()).toMatchObject({
      type: 'message',
      stop_reason: 'max_tokens',
      content: [{ type: 'text', text: choices[0]?.message.content }],
    });
  });

  it('tells what the engine says of a request that it refuses', { timeout: TEST_MS_MAX }, async () => {
    const response = await postJson(`${byEngine.url}/v1/chat/completions`, { ...CHAT, guided_regex: '(' });
    expect(response.status).toBe(400);
    expect(JSON.stringify(await response.json())).toMatch(/regex|grammar|pattern/i);
  });

  it('stops at the engine when its client leaves', { timeout: TEST_MS_MAX }, async () => {
    const leaving = new AbortController();
    const body = { ...CHAT, max_tokens: 3500, ignore_eos: true, stream: true };
    const response = await postJson(`${byEngine.url}/v1/chat/completions`, body, { signal: leaving.signal });
    await response.body?.getReader().read();
    leaving.abort();
    const running = () => byEngine.metric('dynamo_frontend_inflight_requests', 'model="chats"');
    await waitUntil(async () => (await running()) === 0, { what: 'no request in flight' });
    expect(await readChat(byEngine.url, CHAT)).toMatchObject({ finishReason: 'length' });
  });
});
