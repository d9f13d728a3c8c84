import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bundleFunction } from '../../infra/bundle.ts';
import { createTestTable, type TestTable } from '../contract/discovery/test-table.ts';
import {
  type DynamoDbServer,
  hasDynamoDb,
  readChat,
  type SpawnedProcess,
  type StatorProcess,
  spawnNode,
  startDynamoDb,
  useFleet,
  waitUntil,
} from '../support/index.ts';
import { hasLambdaRuntime, type LambdaRuntime, startLambdaRuntime } from '../support/lambda-runtime.ts';
import { nodeIn } from '../support/tools/nodes.ts';

const MODEL = 'stator-mini';
/** A path that each process understands in its own way, as each machine does: what the worker has there, nobody else has. */
const ELSEWHERE = '/proc/self/cwd/model';
/** A worker from code: its model has no files. */
const EMBEDDER = resolve('test/e2e/code-worker.mjs');
const FILES = ['config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json'];
const CHAT = { model: MODEL, max_tokens: 24, messages: [{ role: 'user', content: 'What are you?' }] };
const TOOLS = [
  {
    type: 'function',
    function: { name: 'find', parameters: { type: 'object', properties: { what: { type: 'string' } } } },
  },
];

const home = mkdtempSync(join(tmpdir(), 'stator-two-machines-'));
/** Node 22, as deployed, where the set-up has it. */
const node = process.env.STATOR_TEST_NODES ? nodeIn(process.env.STATOR_TEST_NODES, 22) : process.execPath;
afterAll(() => rmSync(home, { recursive: true, force: true }));

describe('a frontend on another machine than its workers', () => {
  const fleet = useFleet();
  const theirs = join(home, 'worker', 'model');
  const tokenizer = join(theirs, 'tokenizer.json');
  const whole = readFileSync(resolve('shared/artifacts/builtin-model/tokenizer.json'));
  let machines = 0;
  let embedder: SpawnedProcess | undefined;

  beforeAll(async () => {
    cpSync(resolve('shared/artifacts/builtin-model'), theirs, { recursive: true });
    const worker = fleet.worker(
      [`--model-path=${ELSEWHERE}`, `--model-name=${MODEL}`, '--speedup-ratio=100'],
      {},
      { cwd: join(home, 'worker') },
    );
    const env = { DYN_FILE_KV: fleet.fileKv, DYN_TCP_RPC_HOST: '127.0.0.1' };
    embedder = spawnNode([EMBEDDER, '--discovery-backend', 'file'], { cwd: join(home, 'worker'), env });
    await worker;
  });
  afterAll(() => embedder?.kill());

  /** A frontend in a folder of its own, where the model's path leads to what is put there. */
  function frontend(cache: string, own: (folder: string) => void = () => {}): Promise<StatorProcess> {
    const cwd = join(home, `machine ${machines++}`);
    mkdirSync(cwd);
    own(cwd);
    return fleet.frontend([], { STATOR_ARTIFACTS_CACHE_DIR: join(home, cache) }, { cwd, node });
  }

  const fetched = (one: StatorProcess, outcome = 'fetched'): Promise<number> =>
    one.metric('stator_artifact_reads_total', 'source="worker"', `outcome="${outcome}"`);

  it('fetches the model once, and answers chats, tools, completions, embeddings and a prompt of 100,000 tokens', async () => {
    const one = await frontend('cold');
    await fleet.untilWorkers(one, 1);
    const text = await answersOf(one, async () => {
      expect(await fetched(one)).toBe(FILES.length);
      expect(await one.metric('stator_artifact_read_bytes_total', 'source="worker"')).toBeGreaterThan(whole.length);
      await fleet.untilWorkers(one, 1, 'made');
    });
    const two = await frontend('cold'); // on the same machine: what is there already is not fetched
    await fleet.untilWorkers(two, 1);
    expect((await readChat(two.url, CHAT)).text).toBe(text);
    expect(await fetched(two)).toBe(0);
  });

  it('does not take another model for it that lies at the same path here', async () => {
    const one = await frontend('other', (cwd) => {
      cpSync(theirs, join(cwd, 'model'), { recursive: true });
      writeFileSync(join(cwd, 'model', 'tokenizer.json'), Buffer.from(whole).fill('x', 100, 101));
    });
    await fleet.untilWorkers(one, 1);
    expect((await readChat(one.url, CHAT)).finishReason).toBe('length');
    expect(await fetched(one)).toBe(FILES.length);
  });

  it('answers 503 with Retry-After while a byte of it is wrong, says which file, and serves once it is right', async () => {
    const wrong = Buffer.from(whole);
    wrong[1000]! ^= 1;
    writeFileSync(tokenizer, wrong);
    const one = await frontend('wrong');
    await fleet.untilWorkers(one, 1);
    const refused = await send(one, '/v1/chat/completions', CHAT);
    expect([refused.status, await refused.json()]).toMatchObject([503, { error: { code: 'service_unavailable' } }]);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    await one.waitForOutput(/tokenizer\.json cannot be fetched: .*its bytes are others than the card names/);
    expect(await fetched(one, 'wrong')).toBeGreaterThan(0);
    copyFileSync(resolve('shared/artifacts/builtin-model/tokenizer.json'), tokenizer);
    await waitUntil(async () => (await readChat(one.url, CHAT)).finishReason === 'length', {
      what: 'an answer',
      timeoutMs: 30_000,
      pollMs: 500,
    });
  });
});

describe.runIf(hasLambdaRuntime() && hasDynamoDb())('the built function on another machine than its workers', () => {
  const fleet = useFleet();
  const theirs = join(home, 'workers of functions', 'model');
  const tokenizer = join(theirs, 'tokenizer.json');
  const bundle = join(home, 'function');
  let server: DynamoDbServer;
  let table: TestTable;
  let embedder: SpawnedProcess | undefined;

  beforeAll(async () => {
    cpSync(resolve('shared/artifacts/builtin-model'), theirs, { recursive: true });
    await bundleFunction({ outdir: bundle });
    server = await startDynamoDb();
    table = await createTestTable(server.url);
    const flags = [`--model-path=${ELSEWHERE}`, `--model-name=${MODEL}`, '--speedup-ratio=100'];
    const cwd = join(theirs, '..');
    const env = {
      DYN_DISCOVERY_BACKEND: 'dynamodb',
      STATOR_DISCOVERY_TABLE: table.tableName,
      STATOR_DYNAMODB_ENDPOINT: table.endpoint,
      DYN_EVENT_PLANE: 'zmq',
      DYN_EVENT_PLANE_HOST: '127.0.0.1',
      DYN_TCP_RPC_HOST: '127.0.0.1',
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'local',
      AWS_SECRET_ACCESS_KEY: 'local',
    };
    embedder = spawnNode([EMBEDDER, '--discovery-backend', 'dynamodb'], { cwd, env });
    await fleet.worker(flags, env, { cwd });
  });
  afterAll(async () => {
    await embedder?.kill();
    await table.drop();
    await server.stop();
  });

  /** Instances of the function over one cache: a folder that begins empty unless another had it. */
  async function withFunction(cache: string, use: (runtime: LambdaRuntime) => Promise<void>): Promise<void> {
    const env = {
      DYN_DISCOVERY_BACKEND: 'dynamodb',
      STATOR_DISCOVERY_TABLE: table.tableName,
      STATOR_DYNAMODB_ENDPOINT: table.endpoint,
      STATOR_AUTH: 'off',
      DYN_REQUEST_PLANE: 'tcp',
      STATOR_ARTIFACTS_CACHE_DIR: join(home, cache),
    };
    const runtime = await startLambdaRuntime({ directory: bundle, env });
    await use(runtime).finally(() => runtime.stop());
  }

  it('answers chats, tools, completions, embeddings and a prompt of 100,000 tokens, with a cold cache and a warm one', async () => {
    let cold: string | undefined;
    await withFunction('cold function', async (runtime) => {
      await untilServed(runtime, 'made');
      cold = await answersOf(runtime);
    });
    rmSync(tokenizer); // the worker has it no more: what answers now was kept
    await withFunction('cold function', async (runtime) => {
      expect((await readChat(runtime.url, CHAT)).text).toBe(cold);
    });
  });

  it('answers 503 with Retry-After while a byte of the model is wrong, and serves once it is right', async () => {
    const wrong = readFileSync(resolve('shared/artifacts/builtin-model/tokenizer.json'));
    wrong[1000]! ^= 1;
    writeFileSync(tokenizer, wrong);
    await withFunction('wrong function', async (runtime) => {
      const refused = await send(runtime, '/v1/chat/completions', CHAT);
      expect([refused.status, await refused.json()]).toMatchObject([503, { error: { code: 'service_unavailable' } }]);
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
      copyFileSync(resolve('shared/artifacts/builtin-model/tokenizer.json'), tokenizer);
      await waitUntil(async () => (await send(runtime, '/v1/chat/completions', CHAT)).ok, {
        what: 'an answer',
        timeoutMs: 30_000,
        pollMs: 500,
      });
    });
  });
});

interface Endpoint {
  readonly url: string;
}

/** Asks for everything that needs the model, and for what needs none, `between` both; the text of the chat. */
async function answersOf(edge: Endpoint, between = async (): Promise<void> => {}): Promise<string> {
  const chat = await readChat(edge.url, CHAT);
  expect(chat).toMatchObject({ finishReason: 'length' });
  expect(chat.text.length).toBeGreaterThan(20);
  const plain = await post(edge, '/v1/chat/completions', CHAT);
  const tools = await post(edge, '/v1/chat/completions', { ...CHAT, tools: TOOLS });
  expect(usageOf(tools)).toBeGreaterThan(usageOf(plain) + 20);
  const words = 'one two '.repeat(50_000);
  const long = await post(edge, '/v1/completions', { model: MODEL, max_tokens: 1, prompt: words });
  expect(usageOf(long)).toBeGreaterThan(90_000);
  await between();
  const embedded = await post(edge, '/v1/embeddings', { model: 'made', input: [words, 'b'] });
  expect(embedded).toMatchObject({ data: [{ embedding: [0.5, -2, 0] }, { embedding: [0.5, -2, 1] }] });
  return chat.text;
}

async function untilServed({ url }: Endpoint, model: string): Promise<void> {
  await waitUntil(async () => (await fetch(`${url}/v1/models/${model}`)).ok, {
    what: model,
    timeoutMs: 30_000,
    pollMs: 200,
  });
}

function send({ url }: Endpoint, path: string, body: object): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  return fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
}

async function post(edge: Endpoint, path: string, body: object): Promise<unknown> {
  const response = await send(edge, path, body);
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

function usageOf(answer: unknown): number {
  return (answer as { usage: { prompt_tokens: number } }).usage.prompt_tokens;
}
