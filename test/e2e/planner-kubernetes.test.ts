import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PLANNER_FLEETS_FILE } from '../../functions/planner/fleets-file.ts';
import { systemClock } from '../../shared/clock/index.ts';
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
import { FakeApiServer } from '../support/kube/api-server.ts';
import { FakeWorkloads } from '../support/kube/workloads.ts';
import { startPlannerFunction } from '../support/lambda/built-function.ts';
import { hasLambdaRuntime } from '../support/lambda-runtime.ts';
import { queueEvent } from '../support/planner/queue-event.ts';

const WORKER = { STATOR_EVENT_ROLLUP_INTERVAL_MS: '500', STATOR_LEASE_TTL_SECS: '2' };
/** Seconds instead of minutes. */
const QUICK = {
  rate_requests_per_second: 2,
  rate_window_seconds: 5,
  rate_down_window_seconds: 5,
  rate_surge_worth: 0,
  load_adjustment_interval_seconds: 1,
  min_instance_seconds: 1,
  min_endpoint: 1,
  max_gpu_budget: 8,
  start_seconds: 5,
  live_dashboard_port: 0,
  control_api_port: 0,
  report_interval_hours: null,
};

const fleetOf = (model: string, workload: string, cluster: object = { kind: 'kubernetes', namespace: 'default' }) => ({
  namespace: 'dynamo',
  model,
  cluster,
  pools: {
    decode: {
      options: [{ id: '0-on-demand', workload: `Deployment/${workload}`, market: 'on-demand', min: 0, max: 4 }],
      ...{ gpusPerReplica: 1, startSecs: 5, drainSecs: 5, unschedulableSecs: 1 },
    },
  },
});

describe('stator planner with Deployments', () => {
  const fleet = useFleet();
  const booted = new Map<string, Promise<StatorProcess>>();
  const planners: SpawnedProcess[] = [];
  let api: FakeApiServer;
  let workloads: FakeWorkloads;
  let folder: string;
  let env: Record<string, string>;

  beforeAll(async () => {
    api = await FakeApiServer.start();
    workloads = new FakeWorkloads(api, { clock: systemClock, startMs: 200, endMs: 100, gpus: 1 });
    // Each pod of the first Deployment runs a worker that knows only the name of its pod.
    api.store('pods').listen(({ before, after, last }) => {
      const { name, labels } = last.metadata;
      if (labels?.app !== 'chat') return;
      if (before === undefined) booted.set(name, fleet.worker([], { ...WORKER, POD_NAME: name }));
      if (after === undefined) void booted.get(name)?.then((worker) => worker.kill());
    });
    workloads.addDeployment('chat', 0);
    workloads.addDeployment('large', 0);
    folder = await mkdtemp(join(tmpdir(), 'stator-planner-kubernetes-'));
    const kubeconfig = join(folder, 'config');
    const named = { name: 'here', cluster: { server: `http://127.0.0.1:${api.port}` } };
    const context = { name: 'here', context: { cluster: 'here', user: 'planner' } };
    const user = { name: 'planner', user: { token: 'secret' } };
    const config = { 'current-context': 'here', clusters: [named], contexts: [context], users: [user] };
    await writeFile(kubeconfig, JSON.stringify(config));
    env = { KUBECONFIG: kubeconfig, STATOR_PLANNER_DIR: folder };
    plan('stator-mini');
  }, 60_000);
  afterAll(async () => {
    await Promise.all(planners.map((planner) => planner.kill()));
    await api?.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** Starts the planner of a model. */
  function plan(model: string): void {
    const fleets = { fleets: [fleetOf('stator-mini', 'chat'), fleetOf('large', 'large')] };
    const law = JSON.stringify(QUICK);
    const flags = ['--planner-connector=kubernetes', `--planner-model=${model}`, `--planner-config=${law}`];
    planners.push(
      fleet.spawn(['planner', ...flags], {
        ...env,
        STATOR_PLANNER_FLEETS: JSON.stringify(fleets),
        DYN_DISCOVERY_BACKEND: 'file',
        DYN_FILE_KV: fleet.fileKv,
        DYN_EVENT_PLANE_HOST: '127.0.0.1',
      }),
    );
  }

  /** Waits until the last decision of a model reads so. */
  const explained = (model: string, words: RegExp): Promise<string> =>
    waitUntil(
      async () => {
        const { stdout } = await runStator(['planner', 'explain', `--planner-model=${model}`], env);
        return words.test(stdout) && stdout;
      },
      { what: `${words} about ${model}`, timeoutMs: 90_000 },
    ) as Promise<string>;

  it('starts a pod, and says that its worker serves', async () => {
    const text = await explained('stator-mini', /Z {2}carried out\n/);
    expect(text).toMatch(/fleet: decode: 1 serve, 0-on-demand 1 of 1/);
    expect(workloads.podsOf('chat')).toHaveLength(1);
  }, 120_000);

  it('says what the scheduler misses if no node has room', async () => {
    plan('large'); // the only GPU has a pod already
    const text = await explained('large', /Z {2}waits for capacity: .*Insufficient nvidia\.com\/gpu/);
    expect(text).toContain('Unschedulable');
  }, 120_000);

  it('corrects a number that someone else has set', async () => {
    workloads.setReplicas('chat', 0);
    await waitUntil(() => workloads.replicasOf('chat') === 1, { what: 'the number again', timeoutMs: 60_000 });
  }, 90_000);

  it.each([
    [['--planner-connector=kubernetes'], /--planner-fleets \(STATOR_PLANNER_FLEETS\) is missing.*Deployments/],
    [
      ['--planner-connector=eks', `--planner-fleets=${JSON.stringify({ fleets: [fleetOf('m', 'm')] })}`],
      /the cluster of m has the kind kubernetes/,
    ],
  ])('names what is wrong with %j', async (flags, problem) => {
    const { code, stderr } = await runStator(['planner', ...flags], env);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(problem);
  });
});

describe.runIf(hasDynamoDb() && hasLambdaRuntime())('the planner as a function, with a cluster of EKS', () => {
  let server: DynamoDbServer;
  let api: FakeApiServer;
  beforeAll(async () => {
    api = await FakeApiServer.start();
    server = await startDynamoDb();
    for (const tableName of ['plans', 'fleet']) await createTable({ tableName, endpoint: server.url });
  }, 60_000);
  afterAll(async () => {
    await api?.close();
    await server?.stop();
  });

  it('finds the cluster by EKS, and scales with a token that STS can check', async () => {
    const workloads = new FakeWorkloads(api, { clock: systemClock, startMs: 50, endMs: 50 });
    workloads.addDeployment('chat', 0);
    const tokens = new Set<string | undefined>();
    api.judge = ({ token }) => void tokens.add(token);
    const asked: (string | undefined)[] = [];
    const eks = createServer(({ url, headers: { authorization } }, response) => {
      asked.push(`${url} ${authorization?.split('/')[3]}`);
      const described = { endpoint: `http://127.0.0.1:${api.port}`, certificateAuthority: { data: 'LS0K' } };
      response.end(JSON.stringify({ cluster: described }));
    });
    await new Promise<void>((resolve) => eks.listen(0, '127.0.0.1', resolve));
    const cluster = { kind: 'eks', namespace: 'default', name: 'gpu', region: 'us-east-1' };
    const planner = { rate_requests_per_second: 2, min_endpoint: 0, max_gpu_budget: 8 };
    const fleets = { fleets: [{ ...fleetOf('m', 'chat', cluster), planner }] };
    const env = {
      STATOR_PLANNER_CONNECTOR: 'eks',
      AWS_ENDPOINT_URL_EKS: `http://127.0.0.1:${(eks.address() as AddressInfo).port}`,
      STATOR_PLANNER_TABLE: 'plans',
      STATOR_DYNAMODB_ENDPOINT: server.url,
      DYN_DISCOVERY_BACKEND: 'dynamodb',
      STATOR_DISCOVERY_TABLE: 'fleet',
    };
    const runtime = await startPlannerFunction(env, { [PLANNER_FLEETS_FILE]: JSON.stringify(fleets) });
    try {
      const held = { type: 'request.held', v: 1, namespace: 'dynamo', model: 'm', epoch: 'e', seq: 0, source: 'edge' };
      const body = { ...held, held_count: 1, oldest_at: Date.now() };
      const sent = { id: 'message-1', group: 'dynamo#m', body, sentAtMs: Date.now() };
      expect(await runtime.answerTo(queueEvent([sent]))).toEqual({ batchItemFailures: [] });
      expect(workloads.replicasOf('chat')).toBe(1);
      const [token = '', ...others] = [...tokens];
      expect(others).toEqual([]);
      const url = Buffer.from(token.replace(/^k8s-aws-v1\./, ''), 'base64url').toString();
      expect(url).toMatch(/^https:\/\/sts\.us-east-1\.amazonaws\.com\/\?Action=GetCallerIdentity&.*x-k8s-aws-id/);
      expect(asked).toEqual(['/clusters/gpu eks']);
      workloads.gpus = 0;
      for (const pod of workloads.podsOf('chat')) workloads.removePod(pod); // its node is gone, and no other has room
      let seq = 0;
      const isTold = async (): Promise<boolean> => {
        const body = {
          type: 'tick',
          v: 1,
          namespace: 'dynamo',
          model: 'm',
          epoch: 'ticks',
          seq: ++seq,
          source: 'scheduler',
        };
        const tick = { id: `tick-${seq}`, group: 'dynamo#m', body, sentAtMs: Date.now() };
        await runtime.answerTo(queueEvent([tick]));
        return /"MessageGroup":"dynamo#m".*"NodesMissing":1,"StartsFailed":0/.test(runtime.output());
      };
      await waitUntil(isTold, { what: 'the metric of pods without a node', timeoutMs: 30_000 });
    } finally {
      await runtime.stop();
      await new Promise((resolve) => eks.close(resolve));
    }
  }, 90_000);
});
