import { DynamoDBClient, UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { PLANNER_FLEETS_FILE } from '../../functions/planner/fleets-file.ts';
import { systemClock } from '../../shared/clock/index.ts';
import { type DecisionRecord, DynamoDbPlannerStore, INSTANCE_EVENTS_GROUP } from '../../shared/planner/index.ts';
import { EMBEDDED_NAMESPACE, PLANNER_METRICS } from '../../shared/telemetry/index.ts';
import { type FakeAutoScaling, startAutoScaling } from '../support/aws/auto-scaling/index.ts';
import type { BusEvent } from '../support/aws/auto-scaling/types.ts';
import { createTable, type DynamoDbServer, hasDynamoDb, startDynamoDb, waitUntil } from '../support/index.ts';
import { startPlannerFunction } from '../support/lambda/built-function.ts';
import { hasLambdaRuntime, type LambdaRuntime } from '../support/lambda-runtime.ts';
import { queueEvent, type SentMessage } from '../support/planner/queue-event.ts';
import { startTableRelay, type TableRelay } from '../support/planner/table-relay.ts';

const NEVER = new AbortController().signal;
const LAW = { rate_requests_per_second: 2, min_endpoint: 0, max_gpu_budget: 8 };
const MODELS = ['a', 'b', 'c', 'd', 'e', 'f', 'g'] as const;
type Model = (typeof MODELS)[number];
type Body = Readonly<Record<string, unknown>>;

const groupsOf = (model: Model) => [`${model}-0`, `${model}-1`] as const;

const FLEETS = {
  fleets: MODELS.map((model) => ({
    namespace: 'ns',
    model,
    pools: {
      decode: {
        gpusPerReplica: 1,
        startSecs: 60,
        drainSecs: 60,
        options: groupsOf(model).map((group, at) => ({
          ...{ id: `${at}-${at === 0 ? 'on-demand' : 'spot'}`, group, types: ['g6e.xlarge'] },
          ...{ market: at === 0 ? 'on-demand' : 'spot', gpusPerInstance: 1, replicasPerInstance: 1, min: 0, max: 4 },
        })),
      },
    },
    planner: LAW,
  })),
};

/** A line in CloudWatch's embedded format. */
interface Embedded extends Body {
  readonly _aws: {
    readonly CloudWatchMetrics: readonly {
      readonly Namespace: string;
      readonly Dimensions: readonly (readonly string[])[];
      readonly Metrics: readonly { readonly Name: string }[];
    }[];
  };
}

describe.runIf(hasDynamoDb() && hasLambdaRuntime())('the planner as a function', () => {
  const events: BusEvent[] = [];
  let server: DynamoDbServer;
  let relay: TableRelay;
  let scaling: FakeAutoScaling;
  let runtime: LambdaRuntime;
  let store: DynamoDbPlannerStore;
  let serial = 0;
  let nowMs = Date.now();

  beforeAll(async () => {
    server = await startDynamoDb();
    relay = await startTableRelay(server.url);
    for (const tableName of ['plans', 'fleet']) await createTable({ tableName, endpoint: server.url });
    store = await DynamoDbPlannerStore.open({ tableName: 'plans', endpoint: server.url, region: 'us-east-1' });
    scaling = await startAutoScaling({
      clock: systemClock,
      times: { actMs: 20, launchMs: 50, terminateMs: 20, retryMs: 60_000 },
      groups: MODELS.flatMap(groupsOf).map((name) => ({
        ...{ name, types: ['g6e.xlarge'], zones: ['us-east-1a'], max: 4, protectsNew: true },
        market: name.endsWith('1') ? 'spot' : 'on-demand',
      })),
      onEvent: (event) => events.push(event),
    });
    const env = {
      AWS_ENDPOINT_URL_AUTO_SCALING: scaling.url,
      STATOR_PLANNER_TABLE: 'plans',
      STATOR_DYNAMODB_ENDPOINT: relay.url,
      DYN_DISCOVERY_BACKEND: 'dynamodb',
      STATOR_DISCOVERY_TABLE: 'fleet',
      DYN_LOGGING_JSONL: 'true',
    };
    runtime = await startPlannerFunction(env, { [PLANNER_FLEETS_FILE]: JSON.stringify(FLEETS) });
  }, 120_000);
  afterAll(async () => {
    await runtime?.stop();
    await scaling?.stop();
    await store?.close();
    await relay?.close();
    await server?.stop();
  });
  beforeEach(() => {
    relay.before = () => undefined;
  });

  const message = (model: string, body: unknown): SentMessage => {
    const id = `message-${serial++}`;
    nowMs += 5000; // so that a tick is due with each of them
    return { id, group: `ns#${model}`, body, sentAtMs: nowMs };
  };
  const eventOf = (model: Model, type: string, more: Body): SentMessage => {
    const common = { v: 1, namespace: 'ns', model, epoch: `epoch-${serial}`, seq: 0 };
    return message(model, { type, ...common, ...more });
  };
  const held = (model: Model): SentMessage =>
    eventOf(model, 'request.held', { source: 'edge', held_count: 1, oldest_at: Date.now() });
  /** The body that EventBridge Scheduler sends, with its own names filled in. */
  const tick = (model: Model): SentMessage =>
    eventOf(model, 'tick', { source: 'scheduler', at: new Date(nowMs).toISOString() });

  /** Returns the ids of the messages that come again. */
  async function invoke(...messages: readonly SentMessage[]): Promise<readonly string[]> {
    const answer = await runtime.answerTo(queueEvent(messages));
    const { batchItemFailures } = answer as { batchItemFailures: { itemIdentifier: string }[] };
    await runtime.idle();
    return batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
  }

  const desired = (model: Model) => groupsOf(model).map((name) => scaling.account.groups.get(name)?.desired);
  const newest = async (model: Model): Promise<DecisionRecord | undefined> => {
    const [decision] = await store.decisions(`ns#${model}`, { sinceMs: 0, countMax: 1 }, NEVER);
    return decision;
  };
  const embedded = (): readonly Embedded[] =>
    runtime
      .output()
      .split('\n')
      .filter((line) => line.includes('"_aws"'))
      .map((line) => JSON.parse(line) as Embedded);
  const figuresOf = (group: string) => embedded().filter(({ MessageGroup }) => MessageGroup === group);
  const eventually = <T>(what: string, look: () => T | undefined): Promise<T> =>
    waitUntil(look, { what, timeoutMs: 20_000 });

  /** Waits for the event of a launch that a group failed. */
  const failedLaunch = (group: string): Promise<BusEvent> =>
    eventually(`the failed launch of ${group}`, () =>
      events.find(
        ({ 'detail-type': type, detail }) =>
          type === 'EC2 Instance Launch Unsuccessful' && detail.AutoScalingGroupName === group,
      ),
    );

  it('starts the first instance when a request waits, and says so once it serves', async () => {
    expect(await invoke(held('a'))).toEqual([]);
    expect(desired('a')).toEqual([1, 0]);
    expect(await newest('a')).toMatchObject({ status: 'APPLYING', targets: { decode: 1 } });
    await eventually('an instance', () => scaling.instances('a-0').find(({ state }) => state === 'InService'));
    const launched = events.find(({ 'detail-type': type }) => type === 'EC2 Instance Launch Successful');
    expect(await invoke(message('a', launched))).toEqual([]);
    expect(await newest('a')).toMatchObject({ decisionId: 0, status: 'APPLIED' });
    expect(runtime.stats.coldStarts).toBe(1);
  });

  it('goes on with the second option in the round that hears of the shortage', async () => {
    const enough = scaling.account.capacity.lack({ market: 'on-demand', code: 'InsufficientInstanceCapacity' });
    expect(await invoke(held('b'))).toEqual([]);
    expect(desired('b')).toEqual([1, 0]);
    expect(await invoke(message('b', await failedLaunch('b-0')))).toEqual([]);
    expect(desired('b')).toEqual([0, 1]);
    enough();
  });

  it('replaces a machine that EC2 takes back, whose notice names no group', async () => {
    const [instance] = scaling.instances('a-0');
    const registered = { component: 'agg', worker_id: 'w1', instance_id: instance?.id, at: nowMs };
    await invoke(eventOf('a', 'worker.registered', registered));
    const notice = (detail: Body) => ({
      ...message('a', {
        ...{ id: `notice-${serial}`, 'detail-type': 'EC2 Spot Instance Interruption Warning', source: 'aws.ec2' },
        ...{ time: new Date(nowMs).toISOString(), detail },
      }),
      group: INSTANCE_EVENTS_GROUP,
    });
    const heal = scaling.faults.add({
      action: 'DescribeAutoScalingInstances',
      error: { code: 'AccessDenied', message: 'not authorized', status: 403 },
    });
    const notices = [
      notice({ 'instance-id': instance?.id }),
      notice({ 'instance-id': 'i-0fedcba9876543210' }),
    ] as const;
    expect(await invoke(...notices)).toEqual(notices.map(({ id }) => id));
    heal();
    expect(desired('a')).toEqual([1, 0]);
    expect(await invoke(...notices)).toEqual([]);
    expect(desired('a')).toEqual([2, 0]);
    expect(await newest('a')).toMatchObject({ targets: { decode: 2 } });
  });

  it('acknowledges messages that nothing can read, and counts unknown events after one line in the log', async () => {
    const other = { id: 'e', 'detail-type': 'Other', source: 'aws.ec2', time: '2026-11-28T18:00:00Z', detail: {} };
    const elsewhere = { ...tick('c'), group: 'ns#elsewhere' };
    const wrong = ['not JSON', { type: 'tick' }, other, { ...other, id: 'f' }].map((body) => message('c', body));
    expect(await invoke(...wrong, elsewhere, held('c'))).toEqual([]);
    expect(desired('c')).toEqual([1, 0]);
    const output = runtime.output();
    expect(output.match(/aws\.ec2: Other/g)).toHaveLength(1);
    expect(output.match(/message group ns#elsewhere/g)).toHaveLength(1);
    expect(output.match(/a message was refused/g)).toHaveLength(2);
    expect(output).toMatch(/"Name":"UnknownEvents".*"FunctionName":"local","UnknownEvents":3/);
  });

  it('names all messages of a model whose state another planner keeps changing, and no others', async () => {
    await invoke(tick('d'));
    const client = new DynamoDBClient({ endpoint: server.url, region: 'us-east-1' });
    const rival = new UpdateItemCommand({
      TableName: 'plans',
      Key: { pk: { S: 'PLAN#ns#d' }, sk: { S: 'STATE' } },
      UpdateExpression: 'ADD version :one',
      ExpressionAttributeValues: { ':one': { N: '1' } },
    });
    const isCommit = (body: string): boolean => body.includes('PLAN#ns#d') && body.includes(':next');
    relay.before = (body) => (isCommit(body) ? client.send(rival) : undefined);
    const lost = [tick('d'), message('d', 'not JSON'), held('d')] as const;
    const [first, second, third] = lost;
    expect(await invoke(first, tick('c'), second, third)).toEqual(lost.map(({ id }) => id));
    expect(desired('d')).toEqual([0, 0]);
    relay.before = () => undefined;
    client.destroy();
    expect(await invoke(...lost)).toEqual([]);
    expect(desired('d')).toEqual([1, 0]);
  });

  it('acknowledges what it has decided if acting fails, says why, and acts with the next tick', async () => {
    const heal = scaling.faults.add({ error: { code: 'AccessDenied', message: 'not authorized', status: 403 } });
    expect(await invoke(held('e'))).toEqual([]);
    heal();
    const problem = expect.stringMatching(/^acting failed: DescribeAutoScalingGroups/);
    expect(await newest('e')).toMatchObject({ status: 'PENDING', problem });
    expect(desired('e')).toEqual([0, 0]);
    expect(await invoke(tick('e'))).toEqual([]);
    expect(desired('e')).toEqual([1, 0]);
    expect((await newest('e'))?.problem).toBeUndefined();
  });

  it('acts with the next tick after it was killed between decision and act', async () => {
    let isHeld = false;
    relay.before = (body) => {
      if (!body.includes('LEASE')) return undefined;
      isHeld = true;
      return new Promise(() => {});
    };
    const killed = invoke(held('f'));
    await eventually('the lease', () => (isHeld ? true : undefined));
    for (const { pid, isIdle } of runtime.environments()) if (!isIdle && pid) process.kill(pid, 'SIGKILL');
    await expect(killed).rejects.toThrow('Internal server error');
    relay.before = () => undefined;
    expect(await newest('f')).toMatchObject({ status: 'PENDING', targets: { decode: 1 } });
    expect(desired('f')).toEqual([0, 0]);
    expect(await invoke(tick('f'))).toEqual([]);
    expect(desired('f')).toEqual([1, 0]);
  });

  it('looks at a model that rests with as few calls as the price of a tick allows', async () => {
    await invoke(tick('c'));
    const bodies: string[] = [];
    relay.before = (body) => {
      bodies.push(body);
      return undefined;
    };
    expect(await invoke(tick('c'))).toEqual([]);
    const ofPlans = bodies.filter((body) => body.includes('"plans"'));
    expect(ofPlans.filter((body) => body.includes('UpdateExpression'))).toHaveLength(3); // state, lease taken and given
    expect(ofPlans).toHaveLength(3 + 4); // state, decisions before and after the lease is taken
  });

  it('says that no option has machines for a model, once each of them has failed', async () => {
    const codes = (['on-demand', 'spot'] as const).map((market) =>
      scaling.account.capacity.lack({ market, code: 'InsufficientInstanceCapacity' }),
    );
    await invoke(held('g'));
    await invoke(message('g', await failedLaunch('g-0')));
    await invoke(message('g', await failedLaunch('g-1')));
    for (const enough of codes) enough();
    expect(await newest('g')).toMatchObject({ status: 'STALLED', code: 'InsufficientInstanceCapacity' });
    expect(figuresOf('ns#g').at(-1)).toMatchObject({ CapacityStalled: 1, UnappliedDecisions: 0 });
  });

  it('writes the metrics that alarms watch, with their dimensions, into its log', () => {
    const { HeldRequests: _, ...own } = PLANNER_METRICS; // that one is of another function
    const written = new Map<string, string>();
    for (const { _aws } of embedded()) {
      for (const { Namespace, Dimensions, Metrics } of _aws.CloudWatchMetrics) {
        expect(Namespace).toBe(EMBEDDED_NAMESPACE);
        for (const { Name } of Metrics) written.set(Name, JSON.stringify(Dimensions));
      }
    }
    const declared = Object.entries(own).map(([name, { by }]) => {
      const sets: readonly (readonly string[])[] = by;
      return [name, JSON.stringify(sets.map((set) => ['FunctionName', ...set]))] as const;
    });
    expect([...written].sort()).toEqual(declared.sort());
    expect(figuresOf('ns#a')[0]).toMatchObject({ Decisions: 1, UnappliedDecisions: 0, CapacityStalled: 0 });
    expect(figuresOf('ns#a')[1]).toMatchObject({ Decisions: 0 });
    // Acting failed, and then did not.
    expect(figuresOf('ns#e').map(({ UnappliedDecisions }) => UnappliedDecisions)).toEqual([1, 0]);
  });
});
