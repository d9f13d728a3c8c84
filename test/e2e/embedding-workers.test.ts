import { fileURLToPath } from 'node:url';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  freePort,
  postJson,
  type SpawnedProcess,
  type StatorProcess,
  spawnNode,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const FAKE = fileURLToPath(new URL('../shared/engines/server/fake-embedder.mjs', import.meta.url));
const MODEL_FOLDER = fileURLToPath(new URL('../../shared/artifacts/builtin-model', import.meta.url));
const COMMAND = `--engine-command=${process.execPath} ${FAKE}`;

interface Engine {
  readonly args: readonly string[];
  readonly received: readonly Readonly<Record<string, unknown>>[];
}

describe.each(['vllm', 'sglang'])('an embedding worker that starts %s', (engine) => {
  const fleet = useFleet();
  let frontend: StatorProcess;
  let client: OpenAI;
  let engineUrl: string;

  beforeAll(async () => {
    const flags = [`--engine=${engine}`, COMMAND, '--model=org/vectors'];
    const worker = await fleet.worker(flags, { DYN_VLLM_EMBEDDING_WORKER: '1' });
    const [, port] = await worker.waitForOutput(/--port (\d+)/);
    engineUrl = `http://127.0.0.1:${port}`;
    frontend = await fleet.frontend();
    await fleet.untilWorkers(frontend, 1, 'org/vectors');
    client = new OpenAI({ baseURL: `${frontend.url}/v1`, apiKey: 'none', maxRetries: 0 });
  });

  const seen = async (): Promise<Engine> => (await (await fetch(`${engineUrl}/received`)).json()) as Engine;
  const create = (body: Omit<OpenAI.EmbeddingCreateParams, 'model'>) =>
    client.embeddings.create({ model: 'org/vectors', ...body });

  it('starts it for embeddings, without what only routers of prompts need', async () => {
    const { args } = await seen();
    expect(args.join(' ')).toContain(engine === 'vllm' ? '--runner pooling' : '--is-embedding');
    expect(args).not.toContain('--kv-events-config');
  });

  it('embeds a text, a list, token ids and lists of them, which it gets as they are, and counts tokens', async () => {
    const one = await create({ input: 'six by' });
    expect(one.data.map(({ embedding }) => embedding)).toEqual([[2, 0.5, -2, 0]]);
    expect(one.usage).toMatchObject({ prompt_tokens: 2, total_tokens: 2 });
    const two = await create({ input: ['six by', 'abc'], encoding_format: 'float', dimensions: 2 });
    expect(two.data.map(({ embedding }) => embedding)).toEqual([
      [2, 0.5],
      [1, 0.5],
    ]);
    const ids = await create({ input: [[1, 2, 3], [4]] });
    expect(ids.data.map(({ embedding }) => embedding[0])).toEqual([3, 1]);
    expect((await create({ input: [7, 8, 9, 10, 11] })).data[0]?.embedding[0]).toBe(5);
    expect((await seen()).received.map(({ input }) => input)).toEqual([
      'six by',
      ['six by', 'abc'],
      [[1, 2, 3], [4]],
      [7, 8, 9, 10, 11],
    ]);
    const counted = () => frontend.metric('dynamo_frontend_input_sequence_tokens_sum', 'model="org/vectors"');
    expect(await waitUntil(async () => (await counted()) === 2 + 3 + 4 + 5)).toBe(true);
  });

  it('passes on a refusal, and tells clients of other routes that the model does not serve them', async () => {
    await expect(create({ input: 'a', dimensions: 9 })).rejects.toMatchObject({ status: 400, param: 'dimensions' });
    const body = { model: 'org/vectors', messages: [{ role: 'user', content: 'hi' }] };
    const refused = await postJson(`${frontend.url}/v1/chat/completions`, body);
    expect(refused.status).toBe(404);
    expect(await refused.json()).toMatchObject({
      error: {
        code: 'model_not_found',
        message: expect.stringContaining('No model that is served here takes chat requests'),
      },
    });
  });
});

describe('an embedding worker', () => {
  const fleet = useFleet();
  const servers: SpawnedProcess[] = [];
  afterAll(() => Promise.all(servers.map((server) => server.kill())));

  const serve = async (...args: readonly string[]): Promise<string> => {
    const port = await freePort();
    servers.push(spawnServer(port, args));
    const url = `http://127.0.0.1:${port}`;
    await waitUntil(() => fetch(`${url}/health`).then((answer) => answer.ok));
    return url;
  };
  const spawnServer = (port: number, args: readonly string[]) =>
    spawnNode([FAKE, 'serve', 'x', '--served-model-name', 'vectors', '--port', `${port}`, ...args]);

  it('attaches an engine, for which frontends tokenize if its flags say so', async () => {
    const url = await serve('--runner', 'pooling');
    const flags = ['--engine=vllm', `--engine-url=${url}`, '--embedding-worker', `--model-path=${MODEL_FOLDER}`];
    const [frontend] = await Promise.all([
      fleet.frontend(),
      fleet.worker([...flags, '--embedding-frontend-tokenization']),
    ]);
    await fleet.untilWorkers(frontend, 1, 'vectors');
    const answer = await postJson(`${frontend.url}/v1/embeddings`, { model: 'vectors', input: ['Hello', 'you'] });
    const body = (await answer.json()) as { usage: { prompt_tokens: number }; data: { embedding: number[] }[] };
    const { received } = (await (await fetch(`${url}/received`)).json()) as Engine;
    const lengths = received.map(({ input }) => (input as readonly number[]).length).sort();
    expect(received.every(({ input }) => typeof (input as readonly unknown[])[0] === 'number')).toBe(true);
    expect(body.data.map(({ embedding }) => embedding[0]).sort()).toEqual(lengths);
    expect(body.usage.prompt_tokens).toBe(lengths.reduce((sum, each) => sum + each, 0));
  });

  it.each([['an engine of chats', [], 'the engine serves no embeddings: start it with --runner pooling']])(
    'refuses %s',
    async (_, args, says) => {
      const url = await serve(...args);
      const child = fleet.spawn(['worker', '--engine=vllm', `--engine-url=${url}`, '--embedding-worker']);
      expect(await child.exited).toBe(1);
      expect(child.stderr()).toContain(says);
    },
  );

  it.each([
    [['--engine=mocker'], 'DYN_VLLM_EMBEDDING_WORKER needs --engine vllm, sglang or openai'],
    [['--engine=vllm', '--model=m', '--disaggregation-mode=decode'], 'needs --disaggregation-mode agg'],
    [['--engine=vllm', '--model=m', '--embedding-worker-processes=2'], '--embedding-worker-processes can only be 1'],
    [['--engine=vllm', '--model=m', '--enable-multimodal'], 'exclude each other'],
  ])('is never an ordinary worker in silence: %j', async (flags, says) => {
    const child = fleet.spawn(['worker', ...flags], { DYN_VLLM_EMBEDDING_WORKER: '1' });
    expect(await child.exited).toBe(2);
    expect(child.stderr()).toContain(says);
  });
});
