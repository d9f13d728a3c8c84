import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HELD_RECORDS } from '../../infra/constructs/planner/wake.ts';
import example from '../../infra/examples/ec2.config.ts';
import { deployedTemplates } from '../infra/templates.ts';
import { type FakeQueue, startFakeQueue } from '../support/aws/fake-queue.ts';
import { type IamProxy, startIamProxy } from '../support/aws/iam-proxy.ts';
import { grantsOf, unusedGrants } from '../support/aws/policy.ts';
import { RolesOf } from '../support/aws/roles.ts';
import { startTableStream, type TableStream } from '../support/aws/table-stream.ts';
import { createTable, postJson, waitUntil } from '../support/index.ts';
import { startWakeFunction } from '../support/lambda/built-function.ts';
import { FunctionBed, hasFunctionBed, MODEL } from '../support/lambda/function-bed.ts';
import type { LambdaRuntime } from '../support/lambda-runtime.ts';

const FRONT = 'front';
const WAKE = 'wake';
const CHAT = { model: MODEL, max_tokens: 1, messages: [{ role: 'user', content: 'Are you there?' }] };
/** Time in which records are collected, as short as a test can have it. */
const WINDOW_MS = 1;

describe.runIf(hasFunctionBed())('the roles of the functions that hold a request and tell of it', () => {
  const roles = new RolesOf(deployedTemplates(example));
  const ofWake = roles.statements('Stator-Planner', /^WakeRole/);
  const ofFront = roles.statements('Stator-Edge', /^FrontHttp/);
  const { STATOR_PLANNER_TABLE: tableName = '' } = roles.functionVariables('Stator-Planner', /^WakeFunction/);
  const variables = roles.functionVariables('Stator-Edge', /^FrontHttp/);
  const undelivered = roles.queueArn('Stator-Planner', /^EventsUndelivered/);
  /**
   * Rights that the function does not use itself, as Lambda takes the records with the rights of its role.
   *
   * | Right | Used by Lambda |
   * |---|---|
   * | on the stream | to read the records |
   * | on the queue of what could not be delivered | to put a batch aside that failed |
   * | of CloudWatch Logs | for what the function prints |
   */
  const ofLambda = (right: string): boolean =>
    /^logs:|StreamArn$|:ListStreams /.test(right) || right === `sqs:SendMessage ${undelivered}`;
  let bed: FunctionBed;
  let queue: FakeQueue;
  let proxy: IamProxy;
  let wake: LambdaRuntime;
  let front: LambdaRuntime;
  let stream: TableStream;

  beforeAll(async () => {
    [bed, queue] = await Promise.all([FunctionBed.open(), startFakeQueue()]);
    const discovery = variables.STATOR_DISCOVERY_TABLE ?? '';
    await createTable({ tableName, endpoint: bed.server.url });
    proxy = await startIamProxy({
      ...{ target: bed.server.url, storage: bed.server.url, queues: queue.url },
      principals: { [WAKE]: ofWake, [FRONT]: ofFront },
      arnOf: (name) => roles.tableArn(name === bed.table.tableName ? discovery : name),
      queueArnOf: () => roles.queueArn('Stator-Planner', /^EventsQueue/),
      secretOf: () => '',
    });
    const planner = { STATOR_PLANNER_TABLE: tableName, STATOR_DYNAMODB_ENDPOINT: proxy.url, AWS_REGION: 'us-east-1' };
    const as = (name: string) => ({ ...planner, AWS_ACCESS_KEY_ID: name, AWS_SECRET_ACCESS_KEY: name });
    const toPlanner = { STATOR_PLANNER_QUEUE_URL: `${proxy.url}/1/planner.fifo`, STATOR_SQS_ENDPOINT: proxy.url };
    wake = await startWakeFunction({ ...as(WAKE), ...toPlanner });
    stream = await startTableStream({
      ...{ endpoint: bed.server.url, tableName, batchMax: 1000, windowMs: WINDOW_MS },
      pattern: HELD_RECORDS,
      invoke: (event) => wake.answerTo(event),
    });
    front = await bed.startColdFunction({ ...as(FRONT), STATOR_AUTH: 'off', STATOR_HOLD_TIMEOUT: '60' });
  }, 120_000);
  afterAll(async () => {
    await stream?.close();
    await Promise.all([front, wake].map((each) => each?.stop()));
    await proxy?.close();
    await Promise.all([queue?.stop(), bed?.close()]);
  });

  it('allow a request to come and go, and have no right that this does not use', async () => {
    const asked = postJson(`${front.url}/v1/chat/completions`, CHAT);
    const isTold = (): boolean => queue.events.length > 0 || proxy.refused.length > 0;
    await waitUntil(isTold, { what: 'an event about it', timeoutMs: 30_000 });
    expect(proxy.refused).toEqual([]);
    expect(queue.events[0]).toMatchObject({ type: 'request.held', model: MODEL, held_count: 1 });
    await bed.startWorker();
    expect((await asked).status).toBe(200);
    await front.idle();
    expect(proxy.refused).toEqual([]);
    expect(unusedGrants(ofWake, proxy.callsOf(WAKE)).filter((right) => !ofLambda(right))).toEqual([]);
    const held = (right: string): boolean => right.endsWith(` ${roles.tableArn(tableName)}`);
    expect(grantsOf(ofFront).filter(held)).toHaveLength(2);
    expect(unusedGrants(ofFront, proxy.callsOf(FRONT)).filter(held)).toEqual([]);
  }, 90_000);
});
