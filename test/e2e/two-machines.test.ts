import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readChat, type SpawnedProcess, type StatorProcess, spawnNode, useFleet, waitUntil } from '../support/index.ts';
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
    const chat = await readChat(one.url, CHAT);
    expect(chat).toMatchObject({ finishReason: 'length' });
    expect(chat.text.length).toBeGreaterThan(20);
    const plain = await post(one, '/v1/chat/completions', CHAT);
    const tools = await post(one, '/v1/chat/completions', { ...CHAT, tools: TOOLS });
    expect(usageOf(tools)).toBeGreaterThan(usageOf(plain) + 20);
    const words = 'one two '.repeat(50_000);
    const long = await post(one, '/v1/completions', { model: MODEL, max_tokens: 1, prompt: words });
    expect(usageOf(long)).toBeGreaterThan(90_000);
    expect(await fetched(one)).toBe(FILES.length);
    await fleet.untilWorkers(one, 1, 'made');
    const embedded = await post(one, '/v1/embeddings', { model: 'made', input: [words, 'b'] });
    expect(embedded).toMatchObject({ data: [{ embedding: [0.5, -2, 0] }, { embedding: [0.5, -2, 1] }] });
    const two = await frontend('cold'); // on the same machine: what is there already is not fetched
    await fleet.untilWorkers(two, 1);
    expect((await readChat(two.url, CHAT)).text).toBe(chat.text);
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

function send({ url }: StatorProcess, path: string, body: object): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  return fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
}

async function post(frontend: StatorProcess, path: string, body: object): Promise<unknown> {
  const response = await send(frontend, path, body);
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

function usageOf(answer: unknown): number {
  return (answer as { usage: { prompt_tokens: number } }).usage.prompt_tokens;
}
