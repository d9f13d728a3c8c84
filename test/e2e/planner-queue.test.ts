import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SqsPlannerQueue } from '../../shared/planes/index.ts';
import { parsePlannerConfig } from '../../shared/planner/config.ts';
import { handleBatch } from '../../shared/planner/decide/handle-batch.ts';
import { MemoryPlannerStore } from '../../shared/planner/store/memory-store.ts';
import { type PlannerSignal, readPlannerText } from '../../shared/protocol/index.ts';
import {
  createTable,
  type DynamoDbServer,
  hasDynamoDb,
  hasSqs,
  postJson,
  type SqsServer,
  type StatorProcess,
  startDynamoDb,
  startSqs,
  startTcpProxy,
  type TcpProxy,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const NEVER = new AbortController().signal;
const TABLE = 'router-state';
/** Dead processes leave discovery, and lose their lease, within this. */
const SHORT = { STATOR_LEASE_TTL_SECS: '2' };
const WORKER = { ...SHORT, STATOR_EVENT_ROLLUP_INTERVAL_MS: '500' };
const RESIDENT = ['--router-mode=kv', '--router-role=resident', '--hold-timeout=60'];

describe.runIf(hasSqs() && hasDynamoDb())('what a fleet tells the queue of planners', () => {
  const fleet = useFleet();
  let sqs: SqsServer;
  let dynamoDb: DynamoDbServer;
  let proxy: TcpProxy;
  let queue: SqsPlannerQueue;
  let env: Record<string, string>;
  let frontends: StatorProcess[];
  const workers: StatorProcess[] = [];
  const heard: PlannerSignal[] = [];
  const store = new MemoryPlannerStore();
  const planner = {
    config: parsePlannerConfig({ mode: 'agg', rate_requests_per_second: 10, min_endpoint: 0 }),
    engines: { decode: { gpus: 1 } },
  };

  beforeAll(async () => {
    [sqs, dynamoDb] = await Promise.all([startSqs(), startDynamoDb()]);
    await createTable({ tableName: TABLE, endpoint: dynamoDb.url });
    proxy = await startTcpProxy({ host: '127.0.0.1', port: Number(new URL(sqs.url).port) });
    const queueUrl = await sqs.createQueue('planner-events');
    queue = await SqsPlannerQueue.open({ queueUrl, endpoint: sqs.url });
    env = {
      AWS_ACCESS_KEY_ID: 'local',
      AWS_SECRET_ACCESS_KEY: 'local',
      AWS_REGION: 'us-east-1',
      DYN_TCP_RPC_HOST: '127.0.0.1',
      STATOR_STATE_TABLE: TABLE,
      STATOR_DYNAMODB_ENDPOINT: dynamoDb.url,
      STATOR_PLANNER_QUEUE_URL: queueUrl,
      STATOR_SQS_ENDPOINT: `http://127.0.0.1:${proxy.port}`,
      ...SHORT,
    };
    const [first, second, worker] = await Promise.all([
      fleet.frontend(RESIDENT, env),
      fleet.frontend(RESIDENT, env),
      fleet.worker([], WORKER),
    ]);
    frontends = [first, second];
    workers.push(worker);
  }, 120_000);
  afterAll(async () => {
    await queue?.close();
    await proxy?.close();
    await Promise.all([sqs?.stop(), dynamoDb?.stop()]);
  });

  /** Takes what is in the queue, as a function does, until `isDone`. */
  async function plan(isDone: () => boolean, what: string): Promise<void> {
    const step = async (): Promise<boolean> => {
      const batch = await queue.receive({ waitMs: 500, hiddenMs: 30_000 }, NEVER);
      for (const { body } of batch) {
        const read = readPlannerText(body);
        expect(read.kind).toBe('event');
        if (read.kind === 'event') heard.push(read.event as PlannerSignal);
      }
      if (batch.length > 0) await handleBatch(batch, { store, group: batch[0]!.group, planner }, NEVER);
      await queue.delete(batch, NEVER);
      return isDone();
    };
    await waitUntil(step, { what, timeoutMs: 60_000, pollMs: 10 });
  }

  const rollups = () => heard.flatMap((event) => (event.type === 'model.rollup' ? [event] : []));
  const sources = (): readonly string[] => [...new Set(rollups().map(({ source }) => source))];
  const startedOf = (source: string | undefined): number =>
    Math.max(0, ...rollups().flatMap((each) => (each.source === source ? [each.pools.agg?.totals.started ?? 0] : [])));
  /** Which of the frontends answers, once it is one alone: on a busy machine the lease may change hands. */
  const leaderAt = (): Promise<number> =>
    waitUntil(
      async () => {
        const answering = await Promise.all(frontends.map((each) => each.metric('stator_router_answering')));
        return answering.filter((each) => each === 1).length === 1 && answering.indexOf(1);
      },
      { what: 'one that answers', timeoutMs: 20_000 },
    ) as Promise<number>;
  const ask = (frontend: StatorProcess, model = 'stator-mini') =>
    postJson(`${frontend.url}/v1/chat/completions`, {
      model,
      max_tokens: 2,
      messages: [{ role: 'user', content: 'What are you?' }],
    });

  it('comes from one process, with every request that began', { timeout: 70_000 }, async () => {
    await Promise.all(frontends.map((frontend) => fleet.untilWorkers(frontend, 1)));
    await plan(() => rollups().length > 0, 'a message');
    const before = startedOf(sources()[0]);
    for (let at = 0; at < 6; at++) expect((await ask(frontends[at % 2]!)).status).toBe(200);
    await plan(() => startedOf(sources()[0]) >= before + 6, 'what was asked');
    expect(sources()).toHaveLength(1);
    expect(rollups().at(-1)?.pools.agg?.workers).toEqual([workers[0]!.instanceId]);
    await leaderAt();
  });

  it('waits while the queue is away, and stops no request', { timeout: 70_000 }, async () => {
    const before = startedOf(sources()[0]);
    proxy.cut();
    for (let at = 0; at < 5; at++) expect((await ask(frontends[at % 2]!)).status).toBe(200);
    const failures = () => Promise.all(frontends.map((each) => each.metric('stator_planner_queue_failures_total')));
    await waitUntil(async () => (await failures()).some((count) => count > 0), {
      what: 'a failure that is counted',
      timeoutMs: 40_000,
    });
    proxy.restore();
    await plan(() => startedOf(sources()[0]) >= before + 5, 'what was asked meanwhile');
    expect(startedOf(sources()[0])).toBe(before + 5);
  });

  it('goes on from another process when the first one dies', { timeout: 70_000 }, async () => {
    const [former] = sources();
    const [leader] = frontends.splice(await leaderAt(), 1);
    leader!.signal('SIGKILL');
    await plan(() => sources().length === 2, 'a message of the other');
    const after = rollups().slice(rollups().findLastIndex(({ source }) => source === former) + 1);
    expect(after[0]?.pools.agg?.workers).toEqual([workers[0]!.instanceId]);
  });

  it('has the request that finds no worker, and the worker that left, at once', { timeout: 70_000 }, async () => {
    await workers[0]!.kill();
    await plan(() => heard.some(({ type }) => type === 'worker.gone'), 'the worker that left');
    const [frontend] = frontends;
    const held = ask(frontend!);
    await plan(() => heard.some(({ type }) => type === 'request.held'), 'the request that is held');
    const [group = ''] = [`dynamo#${rollups()[0]?.model}`];
    const [decision] = await store.decisions(group, { sinceMs: 0 }, NEVER);
    expect(decision?.targets.decode).toBeGreaterThanOrEqual(1);
    workers.push(await fleet.worker([], WORKER));
    expect((await held).status).toBe(200);
  });
});
