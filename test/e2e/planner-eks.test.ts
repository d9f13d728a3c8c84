import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../shared/clock/index.ts';
import { openChat, readChat, runStator, type SpawnedProcess, useFleet, waitUntil } from '../support/index.ts';
import { FakeApiServer } from '../support/kube/api-server.ts';
import { WorkerPods } from '../support/kube/worker-pods.ts';
import { FakeWorkloads } from '../support/kube/workloads.ts';
import { FLEET, QUIET } from './story/fleet.ts';
import { Load } from './story/load.ts';

const MODEL = 'stator-mini';
const ASKED = { model: MODEL, messages: [{ role: 'user', content: 'What are you?' }] };
const STEP_MS_MAX = 90_000;
/** Workloads of the two options. */
const [FIRST, SPOT] = ['chat-0-on-demand', 'chat-1-spot'];
const optionOf = (id: string, workload: string) => ({
  ...{ id, workload: `Deployment/${workload}`, market: id.slice(2), min: 0, max: 4 },
});
const FLEETS = {
  fleets: [
    {
      namespace: 'dynamo',
      model: MODEL,
      cluster: { kind: 'eks', namespace: 'default', name: 'gpus', region: 'us-east-1' },
      pools: {
        decode: {
          options: [optionOf('0-on-demand', FIRST), optionOf('1-spot', SPOT)],
          ...{ gpusPerReplica: 1, startSecs: 5, drainSecs: 30, unschedulableSecs: 1 },
        },
      },
    },
  ],
};
/** The law of the story of the machines, as a process takes it. */
const LAW = {
  ...FLEET.planner,
  start_at_zero: true,
  live_dashboard_port: 0,
  control_api_port: 0,
  report_interval_hours: null,
};

describe('a fleet of pods on EKS that scales from zero and back', () => {
  const fleet = useFleet();
  const isWhole = expect.objectContaining({ finishReason: 'length', error: undefined, isDone: true });
  let api: FakeApiServer;
  let workloads: FakeWorkloads;
  let eks: Server;
  let folder: string;
  let env: Record<string, string>;
  let planner: SpawnedProcess;
  let url: string;
  let load: Load;

  function plan(): SpawnedProcess {
    const flags = ['--planner-connector=eks', `--planner-model=${MODEL}`, `--planner-config=${JSON.stringify(LAW)}`];
    return fleet.spawn(['planner', ...flags], {
      ...env,
      STATOR_PLANNER_FLEETS: JSON.stringify(FLEETS),
      DYN_DISCOVERY_BACKEND: 'file',
      DYN_FILE_KV: fleet.fileKv,
      DYN_EVENT_PLANE_HOST: '127.0.0.1',
    });
  }

  beforeAll(async () => {
    api = await FakeApiServer.start();
    workloads = new FakeWorkloads(api, { clock: systemClock, gpus: 1 });
    // Nodes of the second option come as soon as there is a pod for them.
    api.store('pods').listen(({ before, last }) => {
      if (before === undefined && last.metadata.name.startsWith(SPOT)) queueMicrotask(() => (workloads.gpus = 3));
    });
    new WorkerPods(api, workloads, fleet);
    for (const workload of [FIRST, SPOT]) workloads.addDeployment(workload, 0);
    eks = createServer((_request, response) => {
      const described = { endpoint: `http://127.0.0.1:${api.port}`, certificateAuthority: { data: 'LS0K' } };
      response.end(JSON.stringify({ cluster: described }));
    });
    await new Promise<void>((resolve) => eks.listen(0, '127.0.0.1', resolve));
    folder = await mkdtemp(join(tmpdir(), 'stator-planner-eks-'));
    env = {
      AWS_ACCESS_KEY_ID: 'local',
      AWS_SECRET_ACCESS_KEY: 'local',
      AWS_ENDPOINT_URL_EKS: `http://127.0.0.1:${(eks.address() as AddressInfo).port}`,
      STATOR_PLANNER_DIR: folder,
    };
    planner = plan();
    const frontend = fleet.spawn(['frontend', '--http-host=127.0.0.1', '--http-port=0'], {
      ...{ STATOR_PLANNED_MODELS: `dynamo#${MODEL}`, STATOR_HOLD_TIMEOUT: '120' },
      ...{ DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: fleet.fileKv, DYN_EVENT_PLANE_HOST: '127.0.0.1' },
    });
    [, url = ''] = await frontend.waitForOutput(/serving url=(\S+)/, 60_000);
    load = new Load(url, MODEL);
  }, 120_000);
  afterAll(async () => {
    load?.pause();
    await planner?.kill();
    await api?.close();
    await new Promise((resolve) => eks?.close(resolve));
    await rm(folder, { recursive: true, force: true });
  });

  const readyOf = (workload: string) => workloads.podsOf(workload).filter((pod) => workloads.isReady(pod)).length;
  const untilReady = (first: number, spot: number) =>
    waitUntil(() => readyOf(FIRST) === first && readyOf(SPOT) === spot, {
      what: `${first} + ${spot} pods`,
      timeoutMs: STEP_MS_MAX,
    });
  const ask = async (verb: string, ...more: string[]): Promise<string> => {
    const { stdout } = await runStator(['planner', verb, `--planner-model=${MODEL}`, ...more], env);
    return stdout;
  };

  it('holds a request while there is no pod, starts one, and answers', { timeout: 150_000 }, async () => {
    expect(await readChat(url, { ...ASKED, max_tokens: 16 })).toEqual(isWhole);
    expect([readyOf(FIRST), readyOf(SPOT)]).toEqual([1, 0]);
    load.run(QUIET);
    await waitUntil(async () => load.count > 0 && (await load.answers()), {
      what: 'an answer',
      timeoutMs: STEP_MS_MAX,
    });
    expect(await ask('explain')).toMatch(/decode 0 -> 1: .* and 1 wait, .*: 1 needed\n/);
  });

  it('takes pods of the second option if no node has room for one of the first', { timeout: 150_000 }, async () => {
    load.run(QUIET * 8);
    await untilReady(1, 1);
    expect(await ask('explain', '--last', '100')).toMatch(/decode 1 -> 2: .*: 2 needed\n/);
  });

  it('moves the streams of a pod whose node is taken back, and replaces the pod', { timeout: 200_000 }, async () => {
    const long = { ...ASKED, max_tokens: 1500, ignore_eos: true };
    const streams = await Promise.all([1, 2, 3, 4].map(() => openChat(url, long)));
    await Promise.all(streams.map((stream) => stream.untilDeltas(3)));
    const [victim = ''] = workloads.podsOf(SPOT);
    api.store('pods').merge(victim, { metadata: { deletionTimestamp: new Date().toISOString() } });
    for (const { answer } of streams) expect(await answer).toEqual(isWhole);
    await waitUntil(() => api.store('pods').get(victim) === undefined, { what: 'its end', timeoutMs: STEP_MS_MAX });
    await untilReady(1, 1);
  });

  it('goes back to zero when the load is gone, though the planner is killed', { timeout: 300_000 }, async () => {
    load.pause();
    for (const answer of await load.answers()) expect(answer).toEqual(isWhole);
    await planner.kill();
    planner = plan();
    await waitUntil(() => workloads.podsOf(FIRST).length + workloads.podsOf(SPOT).length === 0, {
      what: 'no pods',
      timeoutMs: 240_000,
    });
    expect(await ask('explain', '--last', '100')).toMatch(/decode \d -> 0: .*: 0 needed\n/);
  });

  it('has a report with its options, decisions with their reasons, and the shortage', async () => {
    const page = await ask('report', '--since', '30m');
    for (const words of ['0-on-demand', '1-spot', 'and 1 wait', 'Unschedulable']) expect(page).toContain(words);
  });
});
