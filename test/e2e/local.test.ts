import { cpSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { builtinModelPath, builtinText } from '../../shared/artifacts/index.ts';
import {
  childPids,
  freePort,
  isRunning,
  openChat,
  postJson,
  readChat,
  runStator,
  type StatorProcess,
  useFleet,
  waitUntil,
} from '../support/index.ts';
import { type FakeServer, startFakeServer } from './fake-openai-server.ts';

const MODEL = 'stator-mini';
const QUESTION = { model: MODEL, messages: [{ role: 'user', content: 'What are you?' }], max_tokens: 24 };

const fleet = useFleet();

/** The words of the built-in text, in which line breaks are spaces like others. */
function words(text: string): string {
  return text.trim().replace(/\s+/g, ' ');
}

async function getJson(url: string): Promise<Record<string, unknown>> {
  const response = await fetch(url);
  expect(response.status).toBe(200);
  return (await response.json()) as Record<string, unknown>;
}

/** A terminal sends its signal to every process of the job. */
function pressCtrlC(local: StatorProcess): void {
  for (const pid of [local.pid, ...childPids(local.pid)]) process.kill(pid, 'SIGINT');
}

async function untilEnded(pids: readonly number[]): Promise<void> {
  await waitUntil(() => !pids.some(isRunning), { timeoutMs: 10_000, what: `the end of processes ${pids}` });
}

describe('stator local', () => {
  let local: StatorProcess;
  beforeAll(async () => {
    local = await fleet.local(['--grpc-port=0']);
  });
  afterAll(() => local.kill());

  it('says in a few lines what runs, where, and what to try', () => {
    const lines = local.stdout().trim().split('\n');
    expect(lines.length).toBeLessThan(14);
    expect(lines[0]).toContain('Stator is up: 2 mock workers, model stator-mini');
    expect(local.stdout()).toContain(`OpenAI-compatible endpoint: ${local.url}/v1`);
    expect(local.stdout()).toMatch(/KServe v2 by gRPC, for Triton's clients: 127\.0\.0\.1:[1-9]\d*\n/);
    expect(local.stdout()).toContain(`Console, with the fleet and its requests: ${local.url}/console\n`);
    expect(local.stdout()).toContain(`curl -N ${local.url}/v1/chat/completions`);
    expect(local.stdout()).toContain(`OPENAI_BASE_URL=${local.url}/v1 OPENAI_API_KEY=none`);
    expect(local.stdout()).toContain(`ANTHROPIC_BASE_URL=${local.url} ANTHROPIC_API_KEY=none\n`);
    expect(local.stderr()).not.toMatch(/warn|error/i);
  });

  it('says in one line that its temporary folder is not there', async () => {
    const { code, stderr } = await runStator(['local', '--http-port=0'], { TMPDIR: '/nonexistent' });
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^stator: .*\/nonexistent.* Check TMPDIR\n$/)]);
  });

  it('tells the tokens of a text and of a chat, and their text again', async () => {
    const post = async (path: string, body: object): Promise<Record<string, unknown>> => {
      const headers = { 'content-type': 'application/json' };
      const response = await fetch(local.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
      return { status: response.status, ...((await response.json()) as object) };
    };
    const prompt = 'Stator \u00e9\u{1f600} routes <|im_start|> tokens.';
    const said = await post('/tokenize', { prompt, return_token_strs: true });
    const { tokens, count } = said;
    expect(said).toMatchObject({ status: 200, max_model_len: expect.any(Number) });
    expect([(tokens as number[]).length, (said.token_strs as string[]).length]).toEqual([count, count]);
    expect(await post('/detokenize', { tokens })).toEqual({ status: 200, prompt });
    expect(await post('/detokenize', { tokens: [] })).toEqual({ status: 200, prompt: '' });
    expect(await post('/detokenize', { tokens: [10_000_000] })).toMatchObject({ status: 400 });
    expect(await post('/tokenize', { model: 'nobody', prompt })).toMatchObject({ status: 404 });
    const messages = [{ role: 'user', content: prompt }];
    const chat = await post('/tokenize', { messages });
    const { prompt: rendered } = await post('/detokenize', { tokens: chat.tokens });
    expect(rendered).toContain(prompt);
    const short = await post('/tokenize', { messages, add_generation_prompt: false });
    expect(short.count).toBeLessThan(Number(chat.count));
    const answered = await post('/chat/completions/', { model: 'stator-mini', messages, max_tokens: 1 });
    expect(answered.usage).toMatchObject({ prompt_tokens: chat.count });
  });

  it('runs two workers, each a process of its own, reached over TCP on loopback', async () => {
    expect(childPids(local.pid)).toHaveLength(2);
    const health = await getJson(`${local.url}/health`);
    const instances = health.instances as { endpoint: string; transport: { tcp: string } }[];
    const transports = instances
      .filter(({ endpoint }) => endpoint === 'generate')
      .map(({ transport }) => transport.tcp);
    expect(transports).toHaveLength(2);
    for (const transport of transports) expect(transport).toMatch(/^127\.0\.0\.1:\d+\//);
    expect(new Set(transports).size).toBe(2);
  });

  it('streams a chat answer in readable text', async () => {
    const answer = await readChat(local.url, QUESTION);
    expect(answer).toMatchObject({ finishReason: 'length', isDone: true, error: undefined });
    expect(answer.deltas).toBeGreaterThan(10);
    expect(words(builtinText())).toContain(words(answer.text));
  });

  it('answers the same without streaming, with usage', async () => {
    const streamed = await readChat(local.url, { ...QUESTION, stream_options: { include_usage: true } });
    const response = await postJson(`${local.url}/v1/chat/completions`, QUESTION);
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({
      object: 'chat.completion',
      model: MODEL,
      choices: [{ message: { role: 'assistant', content: streamed.text }, finish_reason: 'length' }],
      usage: { completion_tokens: 24, total_tokens: streamed.usage?.total_tokens },
    });
  });

  it('completes a prompt', async () => {
    const response = await postJson(`${local.url}/v1/completions`, { model: MODEL, prompt: 'Once', max_tokens: 8 });
    expect(response.status).toBe(200);
    const body = (await response.json()) as { choices: { text: string; finish_reason: string }[] };
    expect(body).toMatchObject({ object: 'text_completion', usage: { completion_tokens: 8 } });
    expect(words(builtinText())).toContain(words(body.choices[0]?.text ?? ''));
  });

  it('lists its model and tells that it is ready', async () => {
    expect(await getJson(`${local.url}/v1/models`)).toMatchObject({
      object: 'list',
      data: [{ id: MODEL, object: 'model', context_window: 131_072 }],
    });
    expect(await getJson(`${local.url}/v1/models/${MODEL}`)).toMatchObject({ id: MODEL });
    expect(await getJson(`${local.url}/v1/models/${MODEL}/ready`)).toMatchObject({ ready: true });
    expect(await getJson(`${local.url}/live`)).toMatchObject({ status: 'live' });
  });

  it('answers as soon as it listens, before its workers are there', async () => {
    const port = await freePort();
    const starting = fleet.spawn(['local', `--http-port=${port}`]);
    const url = `http://127.0.0.1:${port}`;
    const untilListening = async () => (await fetch(`${url}/live`)).ok;
    await waitUntil(untilListening, { timeoutMs: 20_000, pollMs: 5, what: 'it listens' });
    const [list, chat] = await Promise.all([
      fetch(`${url}/v1/models`),
      postJson(`${url}/v1/chat/completions`, { ...QUESTION, max_tokens: 1 }),
    ]);
    expect([list.status, await list.json()]).toMatchObject([200, { data: [{ id: MODEL }] }]);
    expect(chat.status).toBe(200);
    starting.signal('SIGTERM');
    expect(await starting.exited).toBe(0);
  });

  it('counts its requests in /metrics', async () => {
    const before = await local.metric('dynamo_frontend_requests_total', 'status="success"');
    await readChat(local.url, QUESTION);
    expect(await local.metric('dynamo_frontend_requests_total', 'status="success"')).toBe(before + 1);
    expect(await local.metric('dynamo_frontend_output_tokens_total', `model="${MODEL}"`)).toBeGreaterThanOrEqual(24);
    expect(await local.metric('dynamo_frontend_model_ready', `model="${MODEL}"`)).toBe(1);
  });

  it('logs one short line a request, with what the client asked and got', async () => {
    const lines = () => local.stderr().split('\n').slice(0, -1);
    const completed = () => lines().filter((line) => line.includes('request completed')).length;
    // A line may come later than the end of the answer: first those of the requests before.
    await waitUntil(async () => completed() === (await local.metric('dynamo_frontend_requests_total')), {
      what: 'a line for each request so far',
    });
    const before = lines().length;
    await postJson(`${local.url}/v1/chat/completions`, QUESTION, { headers: { 'x-request-id': 'one-line' } });
    await waitUntil(() => lines().length > before, { what: 'the line of the request' });
    const [line = ''] = lines().slice(before);
    expect(line).toMatch(
      /INFO http: request completed model=stator-mini status=200 worker=\w+ prompt=\d+ cached=\d+ output=24 ttft_ms=\d+ ms=\d+$/,
    );
    expect(lines()).toHaveLength(before + 1);
  });

  it('goes on when a worker is killed, and starts another', async () => {
    const [victim = 0, other = 0] = childPids(local.pid);
    process.kill(victim, 'SIGKILL');
    for (let at = 0; at < 4; at++) expect((await readChat(local.url, QUESTION)).finishReason).toBe('length');
    await waitUntil(() => childPids(local.pid).some((pid) => pid !== other && pid !== victim), {
      what: 'a new worker',
    });
    await local.waitForOutput(/a worker died; starting another/);
    const ready = /worker is ready/g;
    await waitUntil(() => (local.stderr().match(ready)?.length ?? 0) === 3, { what: 'a third worker to be ready' });
    expect((await readChat(local.url, QUESTION)).finishReason).toBe('length');
  });

  it('ends its workers when it is killed itself', async () => {
    const workers = childPids(local.pid);
    expect(workers).toHaveLength(2);
    await local.kill();
    await untilEnded(workers);
  });
});

describe('stator local at its end', () => {
  it.for([
    ['SIGINT', (local: StatorProcess) => local.signal('SIGINT')],
    ['SIGTERM', (local: StatorProcess) => local.signal('SIGTERM')],
    ['Ctrl-C, which reaches the workers too', pressCtrlC],
  ] as const)('exits with 0 on %s and leaves no process and no folder behind', async ([name, stop]) => {
    const temporary = join(fleet.temporary, name);
    mkdirSync(temporary);
    const local = await fleet.local([], { TMPDIR: temporary });
    const workers = childPids(local.pid);
    expect(workers).toHaveLength(2);
    expect(readdirSync(temporary)).toHaveLength(1);
    const stream = await openChat(local.url, QUESTION);
    stop(local);
    expect(await stream.answer).toMatchObject({ finishReason: 'length', isDone: true });
    expect(await local.exited).toBe(0);
    expect(workers.filter(isRunning)).toEqual([]);
    expect(readdirSync(temporary)).toEqual([]);
    await expect(fetch(`${local.url}/live`)).rejects.toThrow();
  });
});

describe('stator local, killed while its workers start', () => {
  it('leaves no worker behind', async () => {
    const local = fleet.spawn(['local', '--http-port=0']);
    const workers = await waitUntil(() => {
      const pids = childPids(local.pid);
      return pids.length === 2 && pids;
    });
    local.signal('SIGKILL');
    await untilEnded(workers);
  });
});

describe('stator local --num-prefill-workers --num-decode-workers', () => {
  it('computes prompts apart, one process a worker, and replaces each by one of its kind', async () => {
    const local = await fleet.local(['--num-prefill-workers=1', '--num-decode-workers=2', '--block-size=16']);
    expect(local.stdout()).toContain('Stator is up: 1 prefill and 2 decode mock workers, model stator-mini');
    expect(childPids(local.pid)).toHaveLength(3);
    const transfers = 'dynamo_component_router_kv_transfer_estimated_latency_seconds_count';
    expect(await readChat(local.url, QUESTION)).toMatchObject({ finishReason: 'length', isDone: true });
    expect(await local.metric(transfers)).toBe(1);
    for (const pid of childPids(local.pid)) process.kill(pid, 'SIGKILL');
    const ready = /worker is ready/g;
    await waitUntil(() => (local.stderr().match(ready)?.length ?? 0) === 6, { timeoutMs: 20_000, what: 'new workers' });
    await waitUntil(async () => (await postJson(`${local.url}/v1/chat/completions`, QUESTION)).status === 200, {
      timeoutMs: 20_000,
      what: 'an answer of the new workers',
    });
    await waitUntil(async () => {
      await readChat(local.url, QUESTION);
      return (await local.metric(transfers)) > 1;
    });
    await local.kill();
  });

  it('gives each worker a port of its own where there is one for each', async () => {
    const ports = [await freePort(), await freePort()];
    const local = await fleet.local([`--zmq-kv-events-ports=${ports.join()}`, '--num-workers=2']);
    expect(local.stdout()).toContain('2 mock workers');
    await local.kill();
    const refused = await runStator(['local', '--http-port=0', `--zmq-kv-events-ports=${ports[0]}`]);
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain('--zmq-kv-events-ports: one port is needed for each worker, got 1');
  });

  it.each([
    [['--num-prefill-workers=1'], '--num-prefill-workers needs --num-decode-workers'],
    [['--num-prefill-workers=1', '--num-decode-workers=1', '--num-workers=2'], 'exclude each other'],
    [
      ['--num-prefill-workers=1', '--num-decode-workers=1', '--engine=openai', '--engine-url=http://h'],
      'needs --engine mocker',
    ],
  ])('refuses %j', async (args, message) => {
    const refused = await runStator(['local', '--http-port=0', ...args]);
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain(message);
  });
});

describe('stator local --model-path', () => {
  it('serves a model folder under the name of the folder', async () => {
    const folder = join(fleet.temporary, 'my-model');
    cpSync(builtinModelPath(), folder, { recursive: true });
    const local = await fleet.local(['--model-path', folder, '--num-workers=1']);
    expect(local.stdout()).toContain('Stator is up: one mock worker, model my-model');
    const answer = await readChat(local.url, { ...QUESTION, model: 'my-model' });
    expect(answer).toMatchObject({ finishReason: 'length', isDone: true });
    await local.kill();
  });
});

describe('stator local --engine openai', () => {
  let fake: FakeServer;
  let local: StatorProcess;
  beforeAll(async () => {
    fake = await startFakeServer();
    local = await fleet.local(['--engine=openai', `--engine-url=${fake.url}`, '--engine-api-key=sk-secret']);
  });
  afterAll(async () => {
    await local.kill();
    fake.close();
  });

  it('serves the model of the server under its own name, through one worker', () => {
    expect(local.stdout()).toContain('Stator is up: one worker in front of your server, model fake-model');
    expect(childPids(local.pid)).toHaveLength(1);
  });

  it('passes a chat on and its chunks back as they come', async () => {
    const ask = { model: 'fake-model', messages: [{ role: 'user', content: 'Hi' }], temperature: 0.25 };
    const stream = await openChat(local.url, ask);
    await stream.untilDeltas(1); // the fake server holds the rest until it is told
    fake.goOn();
    expect(await stream.answer).toMatchObject({ text: 'Hello there', finishReason: 'stop', isDone: true });
    expect(fake.requests.at(-1)).toMatchObject({
      authorization: 'Bearer sk-secret',
      body: { ...ask, stream: true },
    });
  });

  it('passes on an answer in one piece', async () => {
    const response = await postJson(`${local.url}/v1/chat/completions`, { ...QUESTION, model: 'fake-model' });
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({
      model: 'fake-model',
      choices: [{ message: { content: 'Hello there' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
    });
  });

  it('drops the request at the server when the client leaves', async () => {
    const stream = await openChat(local.url, { ...QUESTION, model: 'fake-model' });
    await stream.untilDeltas(1);
    stream.leave();
    await waitUntil(() => fake.dropped === 1, { what: 'the server to see the connection close' });
  });

  it('tells what the server refused, with its status', async () => {
    const response = await postJson(`${local.url}/v1/chat/completions`, {
      ...QUESTION,
      model: 'fake-model',
      messages: [{ role: 'user', content: 'refuse' }],
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { type: 'invalid_request_error' } });
  });

  it('stands in front of another stator', async () => {
    const inner = await fleet.local(['--num-workers=1']);
    const outer = await fleet.local(['--engine=openai', `--engine-url=${inner.url}/v1`]);
    const expected = await readChat(inner.url, QUESTION);
    const answer = await readChat(outer.url, QUESTION);
    expect(answer.text).toBe(expected.text);
    expect(answer).toMatchObject({ finishReason: 'length', isDone: true, deltas: expected.deltas });
    await Promise.all([outer.kill(), inner.kill()]);
  });
});
