import { SetDesiredCapacityCommand } from '@aws-sdk/client-auto-scaling';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../shared/clock/index.ts';
import { type FakeAutoScaling, type FakeInstance, startAutoScaling } from '../support/aws/auto-scaling/index.ts';
import {
  createTable,
  type DynamoDbServer,
  hasDynamoDb,
  runStator,
  type SpawnedProcess,
  type StatorProcess,
  startDynamoDb,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const TABLE = 'planner';
const WORKER = { STATOR_EVENT_ROLLUP_INTERVAL_MS: '500', STATOR_LEASE_TTL_SECS: '2' };
/** Seconds instead of minutes. */
const QUICK = {
  rate_requests_per_second: 2,
  rate_window_seconds: 5,
  rate_down_window_seconds: 5,
  rate_surge_worth: 0,
  load_adjustment_interval_seconds: 1,
  min_endpoint: 1,
  max_gpu_budget: 8,
  start_seconds: 5,
  live_dashboard_port: 0,
  control_api_port: 0,
  report_interval_hours: null,
};
const option = (id: string, group: string) => ({
  id,
  group,
  types: ['g6e.xlarge'],
  market: id.endsWith('spot') ? 'spot' : 'on-demand',
  gpusPerInstance: 1,
  replicasPerInstance: 1,
  min: 0,
  max: 4,
});
const fleetOf = (model: string, options: readonly object[]) => ({
  namespace: 'dynamo',
  model,
  pools: { decode: { options, gpusPerReplica: 1, startSecs: 5, drainSecs: 5 } },
});
const FLEETS = {
  fleets: [
    fleetOf('stator-mini', [option('0-on-demand', 'chat-0'), option('1-spot', 'chat-1')]),
    fleetOf('alone', [option('0-on-demand', 'alone-0')]),
  ],
};

describe.runIf(hasDynamoDb())('stator planner with Auto Scaling groups', () => {
  const fleet = useFleet();
  const workers = new Map<string, Promise<StatorProcess>>();
  let scaling: FakeAutoScaling;
  let dynamoDb: DynamoDbServer;
  const planners: SpawnedProcess[] = [];
  let env: Record<string, string>;

  /** Starts a worker on an instance, as the agent of the instance does. */
  function boot({ id, group, zone, type, market }: FakeInstance): void {
    const facts = { instance_id: id, instance_type: type, zone, market, group: group.name, generation: 'a1' };
    workers.set(id, fleet.worker([], { ...WORKER, STATOR_HOST_FACTS: JSON.stringify(facts) }));
  }

  beforeAll(async () => {
    scaling = await startAutoScaling({
      clock: systemClock,
      times: { actMs: 50, launchMs: 200, terminateMs: 50, retryMs: 1000 },
      groups: ['chat-0', 'chat-1', 'alone-0'].map((name) => ({
        name,
        types: ['g6e.xlarge'],
        zones: ['us-east-1a'],
        max: 4,
        market: name === 'chat-1' ? 'spot' : 'on-demand',
        protectsNew: true,
      })),
      onLaunch: boot,
      onTerminate: ({ id }) => void workers.get(id)?.then((worker) => worker.kill()),
    });
    scaling.account.capacity.lack({ market: 'on-demand', code: 'InsufficientInstanceCapacity' });
    dynamoDb = await startDynamoDb();
    await createTable({ tableName: TABLE, endpoint: dynamoDb.url });
    env = {
      AWS_ACCESS_KEY_ID: 'local',
      AWS_SECRET_ACCESS_KEY: 'local',
      AWS_REGION: 'us-east-1',
      AWS_ENDPOINT_URL_AUTO_SCALING: scaling.url,
      STATOR_PLANNER_TABLE: TABLE,
      STATOR_DYNAMODB_ENDPOINT: dynamoDb.url,
    };
    for (const model of ['stator-mini', 'alone']) {
      const flags = [
        '--planner-connector=ec2',
        `--planner-model=${model}`,
        `--planner-config=${JSON.stringify(QUICK)}`,
      ];
      planners.push(
        fleet.spawn(['planner', ...flags], {
          ...env,
          STATOR_PLANNER_FLEETS: JSON.stringify(FLEETS),
          DYN_DISCOVERY_BACKEND: 'file',
          DYN_FILE_KV: fleet.fileKv,
          DYN_EVENT_PLANE_HOST: '127.0.0.1',
        }),
      );
    }
  }, 60_000);
  afterAll(async () => {
    await Promise.all(planners.map((planner) => planner.kill()));
    await scaling?.stop();
    await dynamoDb?.stop();
  });

  /** Waits until the last decision of a model reads so. */
  const explained = (model: string, words: RegExp): Promise<string> =>
    waitUntil(
      async () => {
        const { stdout } = await runStator(['planner', 'explain', `--planner-model=${model}`], env);
        return words.test(stdout) && stdout;
      },
      { what: `${words} about ${model}`, timeoutMs: 60_000 },
    ) as Promise<string>;

  it('launches in the second option if the first has no capacity, and asks the first no longer', async () => {
    await waitUntil(() => scaling.instances('chat-1').some(({ state }) => state === 'InService'), {
      what: 'an instance of the second option',
      timeoutMs: 60_000,
    });
    const failed = scaling.account.activities.filter(({ status }) => status === 'Failed');
    expect(failed[0]?.message).toContain('We currently do not have sufficient g6e.xlarge capacity');
    expect(scaling.account.groups.get('chat-0')?.desired).toBe(0);
    expect(scaling.account.groups.get('chat-1')?.desired).toBe(1);
  }, 90_000);

  it('shows the decision, and what its fleet has become', async () => {
    const text = await explained('stator-mini', /Z {2}carried out\n/);
    expect(text).toMatch(/dynamo#stator-mini\n\n#0 .*\n {4}decode 0 -> 1: /);
    expect(text).toMatch(
      / {4}fleet: decode: 1 serve, 0-on-demand 0 of 0, 1-spot 1 of 1; machines exist \d+ s after their order\n/,
    );
  }, 90_000);

  it('says what it waits for if no option has capacity', async () => {
    const text = await explained('alone', /Z {2}waits for capacity: .*InsufficientInstanceCapacity/);
    expect(text).toMatch(/fleet: decode: 0 serve, 0-on-demand 0 of \d/); // the option gives up launches that fail
  }, 90_000);

  it('corrects a desired capacity that someone else has changed', async () => {
    const input = { AutoScalingGroupName: 'chat-1', DesiredCapacity: 0 };
    await scaling.client().send(new SetDesiredCapacityCommand(input));
    await waitUntil(() => scaling.account.groups.get('chat-1')?.desired === 1, {
      what: 'the desired capacity of the decision',
      timeoutMs: 60_000,
    });
    expect(scaling.instances('chat-1')).toHaveLength(1);
  }, 90_000);

  it('writes a page of what happened, with the option and the code of what failed', async () => {
    const flags = ['planner', 'report', '--model=stator-mini', '--since=30m', '--gpu-price=1-spot=2'];
    const { stdout, code } = await runStator(flags, env);
    expect(code).toBe(0);
    expect(stdout.slice(0, 15)).toBe('<!doctype html>');
    const rows = stdout.split('<tr>');
    const first = rows.find((row) => row.startsWith('<th scope="row">decode/0-on-demand'));
    expect(first).toContain('<td class="text">InsufficientInstanceCapacity</td>');
    expect(rows.find((row) => row.includes('<td>launch-failed</td>'))).toContain(
      'InsufficientInstanceCapacity in us-east-1a',
    );
    const stalled = await runStator(['planner', 'report', '--model=alone'], env);
    const [decision = ''] = stalled.stdout.split('<tr>').filter((row) => row.startsWith('<th scope="row">#0'));
    expect(decision).toMatch(/waits for capacity.*; code InsufficientInstanceCapacity, option 0-on-demand/);
    const wrong = await runStator([...flags.slice(0, -1), '--gpu-price=2-spot=2'], env);
    expect(wrong.stderr).toContain('the fleet has no such option; allowed: decode/');
    expect(wrong.code).toBe(2);
  });

  it.each([
    [[], /--planner-fleets \(STATOR_PLANNER_FLEETS\) is missing/],
    [['--planner-fleets={"fleets":[{"namespace":"n","model":"m","pools":{"decode":{}}}]}'], /pools\.decode\.options/],
    [[`--planner-fleets=${JSON.stringify(FLEETS)}`, '--planner-model=other'], /known: dynamo#stator-mini/],
  ])('names what is wrong with %j', async (flags, problem) => {
    const { code, stderr } = await runStator(['planner', '--planner-connector=ec2', ...flags], env);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(problem);
  });
});
