import { once } from 'node:events';
import { appendFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  type ChatAnswer,
  openChat,
  postJson,
  readChat,
  type StatorProcess,
  saidIn,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const MODEL = 'stator-mini';
const MESSAGES = [{ role: 'user', content: 'What if a machine fails?' }];
const SHORT = { model: MODEL, messages: MESSAGES, max_tokens: 8, ignore_eos: true };
/** Two seconds: long enough that a fault after its first tokens meets it, also on a busy machine. */
const LONG = { ...SHORT, max_tokens: 360, stream_options: { include_usage: true } };
/** Not over before somebody ends it. */
const ENDLESS = { ...LONG, max_tokens: 7000 };

/** Two seconds to the first token at the pace of `SLOW_START`, unless a worker has seen one about that `topic`. */
function slow(topic: string) {
  return { ...SHORT, messages: [{ role: 'user', content: `${topic}: ${'What if a machine fails? '.repeat(250)}` }] };
}

const INFLIGHT = 'dynamo_component_inflight_requests';

/** Half a second to the first token of a short prompt, then the mock engine's own pace. */
const SLOW_START = ['--speedup-ratio=0.03', '--decode-speedup-ratio=33'];

async function isBusy(worker: StatorProcess): Promise<boolean> {
  return (await worker.metric(INFLIGHT)) > 0;
}

async function untilFree(worker: StatorProcess): Promise<void> {
  await waitUntil(async () => !(await isBusy(worker)), { what: 'a free worker' });
}

function busyOne(workers: readonly StatorProcess[]): Promise<StatorProcess> {
  return waitUntil(
    async () => {
      for (const worker of workers) if (await isBusy(worker)) return worker;
      return undefined;
    },
    { what: 'a worker with a request' },
  );
}

describe('a worker that dies', () => {
  const fleet = useFleet({ STATOR_LEASE_TTL_SECS: '2' });
  let frontend: StatorProcess;
  /** Moves no request. */
  let strict: StatorProcess;
  let workers: StatorProcess[];
  let whole: ChatAnswer;

  beforeAll(async () => {
    [frontend, strict, ...workers] = await Promise.all([
      fleet.frontend(),
      fleet.frontend(['--migration-limit=0']),
      fleet.worker(SLOW_START),
      fleet.worker(SLOW_START),
    ]);
    await untilKnown();
    whole = await readChat(frontend.url, LONG);
    expect(whole).toMatchObject({ finishReason: 'length', isDone: true, usage: { completion_tokens: 360 } });
  });

  /** Brings the fleet back to two workers. First the dead are off record, or they would be counted in place of new ones. */
  afterEach(async () => {
    await untilKnown();
    while (workers.length < 2) workers.push(await fleet.worker(SLOW_START));
    await untilKnown();
  });

  async function untilKnown(): Promise<void> {
    await Promise.all([frontend, strict].map((each) => fleet.untilWorkers(each, workers.length)));
  }

  async function kill(worker: StatorProcess): Promise<void> {
    workers = workers.filter((other) => other !== worker);
    await worker.kill();
  }

  it('in mid-stream leaves the stream unbroken: another goes on with the same text and the same usage', async () => {
    const before = await frontend.metric('dynamo_frontend_model_migration_total', '"ongoing_request"');
    const stream = await openChat(frontend.url, LONG);
    await stream.untilDeltas(5);
    await kill(await busyOne(workers));
    const answer = await stream.answer;
    expect(saidIn(answer)).toEqual(saidIn(whole));
    expect(answer.ids).toHaveLength(1);
    expect(await frontend.metric('dynamo_frontend_model_migration_total', '"ongoing_request"')).toBe(before + 1);
  });

  it('before the first token is not noticed: another answers, streamed and not', async () => {
    const before = await frontend.metric('dynamo_frontend_model_migration_total', '"new_request"');
    const asked = slow('before the first token');
    const streamed = readChat(frontend.url, { ...asked, stream_options: { include_usage: true } });
    const unary = postJson(`${frontend.url}/v1/chat/completions`, asked);
    await waitUntil(async () => (await Promise.all(workers.map(isBusy))).every(Boolean), { what: 'two busy workers' });
    await kill(workers[0]!);
    const { text, usage: { prompt_tokens } = {} } = await streamed;
    const response = await unary;
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({
      choices: [{ message: { content: text } }],
      usage: { prompt_tokens },
    });
    expect(await readChat(frontend.url, asked)).toMatchObject({ text, finishReason: 'length' });
    expect(await frontend.metric('dynamo_frontend_model_migration_total', '"new_request"')).toBe(before + 1);
  });

  it('ends its requests with a clear error where none may move', async () => {
    const stream = await openChat(strict.url, ENDLESS);
    await stream.untilDeltas(5);
    // The other worker's turn, then the first one's again: all three requests are lost with the two workers.
    const waiting = [
      postJson(`${strict.url}/v1/chat/completions`, slow('lost')),
      postJson(`${strict.url}/v1/chat/completions`, { ...slow('lost, too'), stream: true }),
    ];
    await waitUntil(async () => {
      const counts = await Promise.all(workers.map((worker) => worker.metric(INFLIGHT)));
      return counts.reduce((sum, count) => sum + count, 0) === 3;
    });
    await Promise.all(workers.map(kill));
    const lost = { type: 'server_error', code: 'worker_lost', param: null, message: expect.any(String) };
    const answer = await stream.answer;
    expect(answer).toMatchObject({ error: lost, isDone: true, finishReason: undefined });
    expect(whole.text.startsWith(answer.text.slice(0, whole.text.length))).toBe(true);
    for (const response of await Promise.all(waiting)) {
      expect(response.status).toBe(503);
      expect(await response.json()).toEqual({ error: lost });
    }
  });

  it('and a discovery record that is half written stop no other worker', async () => {
    const bucket = join(fleet.fileKv, 'stator/v1/instances');
    const [name = ''] = readdirSync(bucket).filter((file) => file.includes('%2Fgenerate%2F'));
    const text = readFileSync(join(bucket, name), 'utf8');
    const torn = join(bucket, name.replace(/[0-9a-f]+$/, 'feedbeef'));
    writeFileSync(torn, text.slice(0, text.length / 2));
    mkdirSync(join(fleet.fileKv, 'stator/v1/mdc'), { recursive: true });
    writeFileSync(join(fleet.fileKv, 'stator/v1/mdc', 'no%20key%2'), '\u0000');
    await frontend.waitForOutput(/discovery problem.*feedbeef/);
    expect(await readChat(frontend.url, SHORT)).toMatchObject({ finishReason: 'length', isDone: true });
    // The dead workers of the test before may be listed until their leases end.
    await waitUntil(
      async () => {
        const health = (await (await fetch(`${frontend.url}/health`)).json()) as {
          instances: { endpoint: string }[];
        };
        return health.instances.filter(({ endpoint }) => endpoint === 'generate').length === 2;
      },
      { what: 'two instances' },
    );
    // Completed, it is a worker like others; that nobody answers there costs nobody a request.
    appendFileSync(
      torn,
      text.slice(text.length / 2).replaceAll(/"instance_id":"[0-9a-f]+"/g, '"instance_id":"feedbeef"'),
    );
    const answers = await Promise.all(Array.from({ length: 4 }, () => readChat(frontend.url, SHORT)));
    for (const answer of answers) expect(answer).toMatchObject({ finishReason: 'length', error: undefined });
  });
});

describe('a client', () => {
  const fleet = useFleet();
  let frontend: StatorProcess;
  let worker: StatorProcess;

  beforeAll(async () => {
    [frontend, worker] = await Promise.all([fleet.frontend(), fleet.worker()]);
    await fleet.untilWorkers(frontend, 1);
  });

  it.for([true, false])(
    'that leaves frees its place at the worker, whose next request is first (stream: %s)',
    async (stream) => {
      const leaving = new AbortController();
      const endless = { ...SHORT, max_tokens: 8000, stream };
      const response = postJson(`${frontend.url}/v1/chat/completions`, endless, { signal: leaving.signal });
      response.catch(() => undefined); // it is aborted below
      await waitUntil(() => isBusy(worker), { what: 'the request to reach the worker' });
      leaving.abort();
      await untilFree(worker);
      expect(await worker.metric('dynamo_component_gpu_cache_usage_percent')).toBeLessThan(0.01);
      expect(await frontend.metric('dynamo_frontend_inflight_requests')).toBe(0);
      expect(await readChat(frontend.url, SHORT)).toMatchObject({ finishReason: 'length' });
    },
  );

  it('that reads slowly is not written to without bound, and gets everything in the end', async () => {
    const fast = await fleet.worker(['--speedup-ratio=1000', '--model-name=fast']);
    await fleet.untilWorkers(frontend, 1, 'fast');
    // 12 MB of chunks are far beyond what the sockets between hold.
    const body = JSON.stringify({
      ...SHORT,
      model: 'fast',
      max_tokens: 8000,
      stream: true,
      logprobs: true,
      top_logprobs: 20,
    });
    const { port } = new URL(frontend.url);
    const socket = connect(Number(port), '127.0.0.1').pause();
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n` +
        `content-length: ${body.length}\r\n\r\n${body}`,
    );
    await waitUntil(async () => (await fast.metric('dynamo_component_requests_total')) === 1);
    await untilFree(fast); // the worker has made it all and may serve others
    const written = await frontend.metric('dynamo_frontend_output_tokens_total', 'model="fast"');
    expect(written).toBeLessThan(8000);
    expect(await frontend.metric('dynamo_frontend_inflight_requests', 'model="fast"')).toBe(1);

    let text = '';
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    socket.resume();
    await once(socket, 'close');
    expect(text.match(/^data: \{"id"/gm)?.length).toBeGreaterThanOrEqual(8000);
    expect(text).toContain('data: [DONE]');
    expect(await frontend.metric('dynamo_frontend_output_tokens_total', 'model="fast"')).toBe(8000);
  });

  it('whose stream runs when the frontend stops reads its end, while new requests get 503', async () => {
    const last = await fleet.frontend();
    await fleet.untilWorkers(last, 1);
    const whole = await readChat(last.url, LONG);
    // A connection that is open already: new ones are refused once the server closes.
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const ask = (path: string, body?: object) => requestJson(`${last.url}${path}`, agent, body);
    expect(await ask('/live')).toMatchObject({ status: 200 });
    const stream = await openChat(last.url, LONG);
    await stream.untilDeltas(5);
    last.signal('SIGTERM');
    await waitUntil(async () => (await ask('/live')).status === 503, { what: 'the drain to begin' });
    const refusal = { status: 503, body: { error: { type: 'server_error', code: 'service_unavailable' } } };
    expect(await ask('/v1/chat/completions', SHORT)).toMatchObject(refusal);
    expect(await ask('/v1/models')).toMatchObject(refusal);
    expect(await ask('/health')).toMatchObject({ status: 503 });
    const answer = await stream.answer;
    expect(answer).toEqual({ ...whole, ids: answer.ids });
    agent.destroy();
    expect(await last.exited).toBe(0);
  });
});

/** `GET`, or `POST` of `body`, on the connection of `agent`. */
async function requestJson(url: string, agent: Agent, body?: object): Promise<{ status: number; body: unknown }> {
  const method = body === undefined ? 'GET' : 'POST';
  const asked = request(url, { agent, method, headers: { 'content-type': 'application/json' } });
  asked.end(body && JSON.stringify(body));
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return { status: response.statusCode ?? 0, body: await json(response) };
}
