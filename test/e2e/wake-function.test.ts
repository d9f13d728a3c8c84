import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { COLLECTED, HELD_RECORDS } from '../../infra/constructs/planner/wake.ts';
import { systemClock } from '../../shared/clock/index.ts';
import { SqsPlannerQueue } from '../../shared/planes/index.ts';
import { parsePlannerConfig } from '../../shared/planner/config.ts';
import { handleBatch } from '../../shared/planner/decide/handle-batch.ts';
import { DynamoDbHeldNotes } from '../../shared/planner/index.ts';
import { MemoryPlannerStore } from '../../shared/planner/store/memory-store.ts';
import { type FakeAutoScaling, startAutoScaling } from '../support/aws/auto-scaling/index.ts';
import { startTableStream, type TableStream } from '../support/aws/table-stream.ts';
import { createTable, hasSqs, postJson, type SqsServer, startSqs, waitUntil } from '../support/index.ts';
import { startPlannerFunction, startWakeFunction } from '../support/lambda/built-function.ts';
import { FunctionBed, hasFunctionBed, MODEL } from '../support/lambda/function-bed.ts';
import { type InProcessFunction, openInProcessFunction } from '../support/lambda/in-process-function.ts';
import type { LambdaRuntime } from '../support/lambda-runtime.ts';
import { QueuePump } from '../support/planner/queue-pump.ts';

const NEVER = new AbortController().signal;
const GROUP = `dynamo#${MODEL}`;
/** A worker answers a request in three seconds, so 50 that wait need more than one worker. */
const LAW = { mode: 'agg', rate_requests_per_second: 0.3, min_endpoint: 0, max_gpu_budget: 16 };
const FLEETS = {
  fleets: [
    {
      ...{ namespace: 'dynamo', model: MODEL, planner: LAW },
      pools: {
        decode: {
          ...{ gpusPerReplica: 1, startSecs: 60, drainSecs: 60 },
          options: [
            {
              ...{ id: '0-on-demand', group: 'chat-0-on-demand', types: ['g6e.xlarge'], market: 'on-demand' },
              ...{ gpusPerInstance: 1, replicasPerInstance: 1, min: 0, max: 16 },
            },
          ],
        },
      },
    },
  ],
};
/** Environments under Lambda's runtime client. The others are of the same code, in this process. */
const REAL = 4;
const ENVIRONMENTS = 50;
const CHAT = { model: MODEL, stream: true, max_tokens: 4, messages: [{ role: 'user', content: 'What are you?' }] };

describe.runIf(hasFunctionBed() && hasSqs())('cold requests at functions', () => {
  /** Machines that the planner wanted after each batch. */
  const wanted: number[] = [];
  let bed: FunctionBed;
  let sqs: SqsServer;
  let queue: SqsPlannerQueue;
  let scaling: FakeAutoScaling;
  let wake: LambdaRuntime;
  let planner: LambdaRuntime;
  let front: LambdaRuntime;
  let stream: TableStream;
  let pump: QueuePump;
  const near: InProcessFunction[] = [];

  beforeAll(async () => {
    [bed, sqs] = await Promise.all([FunctionBed.open(), startSqs()]);
    await createTable({ tableName: 'plans', endpoint: bed.server.url });
    const queueUrl = await sqs.createQueue('planner-events');
    queue = await SqsPlannerQueue.open({ queueUrl, endpoint: sqs.url });
    scaling = await startAutoScaling({
      clock: systemClock,
      times: { actMs: 20, launchMs: 50, terminateMs: 20, retryMs: 60_000 },
      groups: [
        {
          ...{ name: 'chat-0-on-demand', types: ['g6e.xlarge'], zones: ['us-east-1a'], max: 16 },
          ...{ protectsNew: true, market: 'on-demand' as const },
        },
      ],
    });
    const table = { STATOR_PLANNER_TABLE: 'plans', STATOR_DYNAMODB_ENDPOINT: bed.server.url };
    [wake, planner] = await Promise.all([
      startWakeFunction({
        ...table,
        STATOR_PLANNER_QUEUE_URL: queueUrl,
        STATOR_SQS_ENDPOINT: sqs.url,
        DYN_LOGGING_JSONL: 'true',
      }),
      startPlannerFunction({
        ...bed.where,
        ...table,
        AWS_ENDPOINT_URL_AUTO_SCALING: scaling.url,
        STATOR_PLANNER_FLEETS: JSON.stringify(FLEETS),
      }),
    ]);
    stream = await startTableStream({
      ...{ endpoint: bed.server.url, tableName: 'plans', batchMax: 1000 },
      windowMs: COLLECTED.toMilliseconds(),
      pattern: HELD_RECORDS,
      invoke: (event) => wake.answerTo(event),
    });
    const onTaken = (): void => {
      wanted.push(scaling.account.groups.get('chat-0-on-demand')?.desired ?? Number.NaN);
    };
    pump = new QueuePump({ queue, planner, hiddenMs: 60_000, onTaken });
    const env = { ...table, STATOR_AUTH: 'off', STATOR_HOLD_TIMEOUT: '600' };
    front = await bed.startColdFunction(env, REAL);
    const nearEnv = { ...bed.where, ...env, STATOR_ARTIFACTS_CACHE_DIR: join(bed.bundle.directory, 'near') };
    while (near.length < ENVIRONMENTS - REAL) near.push(await openInProcessFunction(nearEnv));
  }, 300_000);
  afterAll(async () => {
    await pump?.stop();
    await stream?.close();
    await Promise.all(near.map((each) => each.close()));
    await Promise.all([front, wake, planner].map((each) => each?.stop()));
    await queue?.close();
    await Promise.all([scaling?.stop(), sqs?.stop(), bed?.close()]);
  });

  /** Returns how many workers the law wants for held requests, and nothing else. */
  async function needFor(count: number): Promise<number> {
    const store = new MemoryPlannerStore();
    const common = { v: 1, namespace: 'dynamo', model: MODEL, epoch: 'e', seq: 0 };
    const event = { type: 'request.held', ...common, source: 'functions', held_count: count, oldest_at: Date.now() };
    const config = { config: parsePlannerConfig(LAW), engines: { decode: { gpus: 1 } } };
    const message = { body: JSON.stringify(event), sentAtMs: Date.now() };
    await handleBatch([message], { store, group: GROUP, planner: config }, NEVER);
    const [decision] = await store.decisions(GROUP, { sinceMs: 0, countMax: 1 }, NEVER);
    return decision?.targets.decode ?? 0;
  }

  it('start exactly the workers that they need, with one event for 5 s, and all are answered', {
    timeout: 900_000,
  }, async () => {
    const need = await needFor(ENVIRONMENTS);
    expect(need).toBeGreaterThan(await needFor(1));
    const far = Array.from({ length: REAL }, async () => {
      const response = await postJson(`${front.url}/v1/chat/completions`, CHAT);
      return { status: response.status, text: await response.text() };
    });
    const all = [...far, ...near.map((each) => each.chat(CHAT))];
    const asked = Promise.all(all);
    const answeredEarly = Promise.race(all).then((answer) => {
      throw new Error(`answered while no worker was there: ${JSON.stringify(answer)}`);
    });
    const heard = pump.taken;
    const areAllHeld = waitUntil(() => heard.filter(({ held_count }) => held_count === ENVIRONMENTS).length >= 2, {
      what: 'two events about all of them',
      timeoutMs: 120_000,
    });
    await Promise.race([areAllHeld, answeredEarly]);
    await waitUntil(() => wanted.at(-1) === need, { what: `${need} workers`, timeoutMs: 30_000 });
    expect(Math.max(...wanted)).toBe(need); // never more
    expect(new Set(heard.map(({ source }) => source))).toEqual(new Set(['functions']));
    const windows = heard.map(({ seq }) => seq);
    expect(new Set(windows).size).toBe(windows.length);
    expect(front.stats.coldStarts).toBe(REAL);
    expect(pump.failures).toBe(0);

    // One after the other: on a busy machine, many starts at once wait too long for the table.
    for (let at = 0; at < need; at++) await bed.startWorker();
    const answers = await asked;
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    for (const { text } of answers) expect(text).toMatch(/data: \[DONE\]\s*$/);
    await front.idle();
    const notes = await DynamoDbHeldNotes.open({ tableName: 'plans', endpoint: bed.server.url });
    expect(await notes.live(GROUP, NEVER)).toEqual([]);
    await notes.close();
    expect(wake.output()).toContain('"HeldRequests":50');
  });
});
