import { beforeAll, describe, expect, it } from 'vitest';
import { createTestTable, type TestTable } from '../contract/discovery/test-table.ts';
import {
  type DynamoDbServer,
  hasDynamoDb,
  openChat,
  postJson,
  readChat,
  type StatorProcess,
  saidIn,
  startDynamoDb,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const MODEL = 'stator-mini';
const QUESTION = { model: MODEL, messages: [{ role: 'user', content: 'How do parts meet?' }], ignore_eos: true };
const SHORT = { ...QUESTION, max_tokens: 8 };
/** Two seconds at the mock engine's own pace: also on a busy machine its worker is told to stop before it is over. */
const LONG = { ...QUESTION, max_tokens: 360, stream_options: { include_usage: true } };

/** The one of `workers` that has requests under way. */
function busyOne(workers: readonly StatorProcess[]): Promise<StatorProcess> {
  return waitUntil(
    async () => {
      for (const worker of workers) if ((await worker.metric('dynamo_component_inflight_requests')) > 0) return worker;
      return undefined;
    },
    { what: 'a worker with a request' },
  );
}

async function drain(worker: StatorProcess): Promise<void> {
  worker.signal('SIGTERM');
  expect(await worker.exited).toBe(0);
}

describe('stator frontend and stator worker in terminals of their own', () => {
  // Dead workers leave discovery within the first; a stream ends within the second also on a busy machine.
  const fleet = useFleet({ STATOR_LEASE_TTL_SECS: '4', DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: '40' });
  let frontend: StatorProcess;
  const workers: StatorProcess[] = [];

  beforeAll(async () => {
    [frontend, workers[0]!] = await Promise.all([fleet.frontend(), fleet.worker()]);
    await fleet.untilWorkers(frontend, 1);
  });

  it('serve through one worker', async () => {
    expect(await readChat(frontend.url, SHORT)).toMatchObject({ finishReason: 'length', isDone: true });
  });

  it('share the work with a worker that joins', async () => {
    workers[1] = await fleet.worker();
    await fleet.untilWorkers(frontend, 2);
    await Promise.all([readChat(frontend.url, SHORT), readChat(frontend.url, SHORT)]);
    for (const worker of workers) {
      expect(await worker.metric('dynamo_component_requests_total')).toBeGreaterThan(0);
    }
  });

  it('let a stream end on a worker that drains, and give it no other', async () => {
    const expected = await readChat(frontend.url, LONG);
    const stream = await openChat(frontend.url, LONG);
    await stream.untilDeltas(3);
    const draining = await busyOne(workers);
    draining.signal('SIGTERM');
    await fleet.untilWorkers(frontend, 1);
    await Promise.all([readChat(frontend.url, SHORT), readChat(frontend.url, SHORT)]);
    expect(await stream.answer).toEqual({ ...expected, ids: (await stream.answer).ids });
    expect(await draining.exited).toBe(0);
    expect(draining.stderr()).toMatch(/worker has drained.*finished=1 moved=0 failed=0/);
    workers.splice(workers.indexOf(draining), 1);
  });

  it('move a stream that outlasts the grace period to another worker, unbroken', async () => {
    const expected = await readChat(frontend.url, LONG);
    const hasty = await fleet.worker([], { DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: '0' });
    workers.push(hasty);
    await fleet.untilWorkers(frontend, 2);
    const streams = await Promise.all([openChat(frontend.url, LONG), openChat(frontend.url, LONG)]);
    await Promise.all(streams.map((stream) => stream.untilDeltas(3)));
    await drain(hasty); // each worker has one of the two streams
    expect(hasty.stderr()).toMatch(/worker has drained.*finished=0 moved=1 failed=0/);
    for (const stream of streams) {
      const answer = await stream.answer;
      expect(saidIn(answer)).toEqual(saidIn(expected));
      expect(answer.ids).toHaveLength(1);
    }
    expect(await frontend.metric('dynamo_frontend_model_migration_total')).toBe(1);
    const moved = new RegExp(
      `INFO pipeline: request moves to another worker model=\\S+ worker=${hasty.instanceId} reason=`,
    );
    await frontend.waitForOutput(moved);
    await frontend.waitForOutput(/request completed model=\S+ status=200 worker=\w+ .*moved=1 .*ms=\d+/);
    workers.pop();
  });

  it('answer 503 while a model whose last worker has left is remembered, and stay healthy', async () => {
    await Promise.all(workers.splice(0).map(drain));
    await fleet.untilWorkers(frontend, 0);
    const response = await postJson(`${frontend.url}/v1/chat/completions`, SHORT);
    expect(response.status).toBe(503);
    expect(response.headers.get('retry-after')).toBe('5');
    expect(await response.json()).toMatchObject({ error: { type: 'server_error', code: 'service_unavailable' } });
    expect(await (await fetch(`${frontend.url}/v1/models`)).json()).toEqual({ object: 'list', data: [] });
    await frontend.waitForOutput(/INFO models: model is served model=stator-mini workers=\d/);
    await frontend.waitForOutput(/INFO models: model is no longer served model=stator-mini reason=/);
    const health = await fetch(`${frontend.url}/health`);
    expect(health.status).toBe(200);
    expect(await health.json()).toEqual({ status: 'healthy', endpoints: [], instances: [] });
  });

  it('answer 503 while dead workers are still on record, and when they are no more', async () => {
    const worker = await fleet.worker();
    await fleet.untilWorkers(frontend, 1);
    await worker.kill();
    const response = await postJson(`${frontend.url}/v1/chat/completions`, SHORT);
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ error: { type: 'server_error', message: expect.any(String) } });
    await fleet.untilWorkers(frontend, 0);
    expect((await postJson(`${frontend.url}/v1/chat/completions`, SHORT)).status).toBe(503);
  });

  it('serve again when a worker comes back', async () => {
    const worker = await fleet.worker();
    await fleet.untilWorkers(frontend, 1);
    expect(await readChat(frontend.url, SHORT)).toMatchObject({ finishReason: 'length', isDone: true });
    await drain(worker);
  });

  it('end with code 0 when told to', async () => {
    frontend.signal('SIGINT');
    expect(await frontend.exited).toBe(0);
  });
});

// Each goes through several outages, and both at a time: a busy machine takes long for that.
describe.runIf(hasDynamoDb())('stator frontend and stator worker on a discovery table', () => {
  const fleet = useFleet();
  let server: DynamoDbServer;

  beforeAll(async () => {
    server = await startDynamoDb();
    return () => server.stop();
  });

  it.concurrent('meet through the table, outlast its absence, and see what changed meanwhile', async () => {
    const table = await createTestTable(server.url);
    const env = tableEnvironment(table);
    const [frontend, first] = await Promise.all([fleet.frontend([], env), fleet.worker([], env)]);
    await fleet.untilWorkers(frontend, 1);
    expect(await readChat(frontend.url, SHORT)).toMatchObject({ finishReason: 'length', isDone: true });

    table.proxy.cut();
    await frontend.waitForOutput(/discovery cannot be read; serving what is known/);
    expect(await readChat(frontend.url, SHORT)).toMatchObject({ finishReason: 'length', isDone: true });
    expect((await fetch(`${frontend.url}/health`)).status).toBe(200);

    table.proxy.restore();
    await frontend.waitForOutput(/discovery can be read again/);
    const second = await fleet.worker([], env);
    await fleet.untilWorkers(frontend, 2);
    await drain(first);
    await fleet.untilWorkers(frontend, 1);
    expect(await readChat(frontend.url, SHORT)).toMatchObject({ finishReason: 'length', isDone: true });
    expect(await second.metric('dynamo_component_requests_total')).toBeGreaterThan(0);
    await Promise.all([drain(second), drain(frontend)]);
    await table.drop();
  });

  it.concurrent('stay up while the table is unreachable for longer than a lease, and go on serving', async () => {
    const table = await createTestTable(server.url);
    const env = { ...tableEnvironment(table), STATOR_LEASE_TTL_SECS: '2' };
    const [frontend, worker] = await Promise.all([fleet.frontend([], env), fleet.worker([], env)]);
    await fleet.untilWorkers(frontend, 1);
    const stream = await openChat(frontend.url, { ...LONG, max_tokens: 600 });
    await stream.untilDeltas(1);
    table.proxy.cut();
    await worker.waitForOutput(/lease lost: serving callers that still know this worker/);
    expect(await readChat(frontend.url, SHORT)).toMatchObject({ finishReason: 'length', isDone: true });
    expect(await stream.answer).toMatchObject({
      finishReason: 'length',
      isDone: true,
      usage: { completion_tokens: 600 },
    });

    table.proxy.restore();
    await worker.waitForOutput(/lease regained/);
    expect(await readChat(frontend.url, SHORT)).toMatchObject({ finishReason: 'length', isDone: true });
    await Promise.all([drain(worker), drain(frontend)]);
    await table.drop();
  });
});

function tableEnvironment({ endpoint, tableName }: TestTable): Record<string, string> {
  return {
    DYN_DISCOVERY_BACKEND: 'dynamodb',
    STATOR_DISCOVERY_TABLE: tableName,
    STATOR_DYNAMODB_ENDPOINT: endpoint,
    DYN_EVENT_PLANE: 'zmq',
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'local',
    AWS_SECRET_ACCESS_KEY: 'local',
  };
}
