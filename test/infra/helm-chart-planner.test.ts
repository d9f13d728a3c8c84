import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parsePlannerConfig } from '../../shared/planner/config.ts';
import { readClusterFleets } from '../../shared/planner/kubernetes/cluster-fleet.ts';
import { fleetPreset } from '../../shared/planner/options/read-fleets.ts';
import { KUBERNETES, renderChart } from '../support/docs/render-kubernetes.ts';
import { environmentOf, readManifests, workloadsOf } from '../support/kube/manifests.ts';
import { PLANNED } from '../support/kube/planned-values.ts';
import { spawnProgram } from '../support/spawn-node.ts';

const helm = process.env.STATOR_TEST_HELM_BIN ?? '';
const TEMPLATE = [
  'template',
  'stator',
  'deploy/kubernetes/chart',
  '--namespace',
  'serving',
  '--kube-version',
  KUBERNETES,
];
const POOL = ['planner.enabled=true', 'workers.a.engine=mocker', 'workers.a.model=m'];
const ONE = [...POOL, ...entry(0, 'a')];

function entry(at: number, pool: string): readonly string[] {
  return [`pool=${pool}`, 'min=0', 'max=3'].map((value) => `planner.pools[${at}].${value}`);
}

/** Returns values of a second pool `b` that the planner scales. */
function second(...values: readonly string[]): readonly string[] {
  return [...entry(1, 'b'), ...values.map((value) => `workers.b.${value}`)];
}

function setting(values: readonly string[]): readonly string[] {
  return values.flatMap((value) => ['--set', value]);
}

/** Renders the chart beside a Deployment of five pods that the cluster has. Returns the objects. */
async function renderBeside(annotations: Readonly<Record<string, string>>, values: readonly string[]) {
  const kinds = { resources: [{ name: 'deployments', namespaced: true, kind: 'Deployment', verbs: ['get'] }] };
  const live = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { annotations }, spec: { replicas: 5 } };
  const server = createServer((request, response) => {
    const isList = /^\/apis\/apps\/v1(\?|$)/.test(request.url ?? '');
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(isList ? { kind: 'APIResourceList', groupVersion: 'apps/v1', ...kinds } : live));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const folder = mkdtempSync(join(tmpdir(), 'helm-'));
  const cluster = { name: 'here', cluster: { server: `http://127.0.0.1:${(server.address() as AddressInfo).port}` } };
  const context = { name: 'here', context: { cluster: 'here', user: 'here' } };
  const users = [{ name: 'here', user: {} }];
  const config = { 'current-context': 'here', contexts: [context], clusters: [cluster], users };
  try {
    writeFileSync(join(folder, 'config'), JSON.stringify(config));
    const args = [...TEMPLATE, '--dry-run=server', '--kubeconfig', join(folder, 'config'), ...setting(values)];
    const child = spawnProgram(helm, args, { env: { HELM_CACHE_HOME: folder, KUBECACHEDIR: folder } });
    expect(await child.exited, child.stderr()).toBe(0);
    return readManifests(child.stdout());
  } finally {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

describe.skipIf(helm === '')('the planner of the Helm chart', () => {
  const manifests = helm === '' ? [] : readManifests(renderChart(helm, ...PLANNED));
  const fleetsOfChart = () => {
    const map = manifests.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'stator-planner');
    return readClusterFleets(map?.data?.['fleets.json'] ?? '', 'the values').fleets;
  };

  it('has the pools of the values, in their order', () => {
    const prefill = [{ id: '0-on-demand', group: 'Deployment/stator-worker-first', min: 1, max: 2 }];
    const decode = [
      { id: '0-on-demand', group: 'Deployment/stator-worker-zeta', min: 1, max: 3, market: 'on-demand' },
      { id: '1-spot', group: 'Deployment/stator-worker-alpha', min: 1, max: 4, market: 'spot' },
    ];
    expect(fleetsOfChart()).toMatchObject([
      {
        ...{ namespace: 'dynamo', model: 'served', cluster: { kind: 'kubernetes', namespace: 'serving' } },
        pools: {
          prefill: { gpusPerReplica: 1, drainSecs: 300, startSecs: 180, options: prefill },
          decode: { gpusPerReplica: 4, drainSecs: 90, startSecs: 180, options: decode },
        },
      },
    ]);
  });

  it('may use all GPUs of its pools, and keeps their smallest numbers', () => {
    const [fleet] = fleetsOfChart();
    expect(parsePlannerConfig(fleet === undefined ? {} : fleetPreset(fleet))).toMatchObject({
      ...{ mode: 'disagg', law: 'rate', maxGpuBudget: 2 + 4 * (3 + 4), prefillMinEndpoint: 1, decodeMinEndpoint: 2 },
      ...{ ratePrefillRequestsPerSecond: 2, rateDecodeRequestsPerSecond: 3, reportIntervalHours: null },
    });
  });

  it('is one for each model, with ports of its own and one folder', () => {
    const values = ['--values', 'deploy/kubernetes/values/models.yaml'];
    const rendered = readManifests(renderChart(helm, ...values));
    const map = rendered.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'stator-planner');
    const { fleets, gpusMax } = readClusterFleets(map?.data?.['fleets.json'] ?? '', 'the values');
    expect(gpusMax).toBe(16);
    expect(fleets.map(({ model }) => model)).toEqual(['Qwen/Qwen3-8B', 'large']);
    const configs = fleets.map((fleet) => parsePlannerConfig(fleetPreset(fleet)));
    expect(configs).toMatchObject([
      { rateRequestsPerSecond: 12, maxGpuBudget: 8, minEndpoint: 1, liveDashboardPort: 8080, controlApiPort: 9086 },
      { rateRequestsPerSecond: 3, maxGpuBudget: 8, minEndpoint: 0, liveDashboardPort: 8180, controlApiPort: 9186 },
    ]);
    const workloads = workloadsOf(rendered);
    const facts = new Proxy({}, { get: () => 'f' }) as Readonly<Record<string, string>>;
    const planners = workloads.filter(({ name }) => name === 'stator-planner').map(({ container }) => container);
    expect(planners.map(({ name }) => name)).toEqual(['main', '2-large']);
    const common = { STATOR_PLANNER_DIR: '/data/planner', STATOR_PLANNER_FLEETS: '/etc/stator/fleets.json' };
    expect(planners.map((container) => environmentOf(container, facts))).toMatchObject([
      { ...common, STATOR_PLANNER_MODEL: 'Qwen/Qwen3-8B', PLANNER_PROMETHEUS_PORT: '9085' },
      { ...common, STATOR_PLANNER_MODEL: 'large', PLANNER_PROMETHEUS_PORT: '9185' },
    ]);
    const frontend = workloads.find(({ name }) => name === 'stator-frontend');
    expect(frontend && environmentOf(frontend.container, facts)).toMatchObject({
      STATOR_PLANNED_MODELS: 'dynamo#Qwen/Qwen3-8B,dynamo#large',
    });
  });

  it('counts a worker of several pods by all its GPUs, and sets the number of groups', () => {
    const group = [...POOL, ...entry(0, 'a'), 'workers.a.engine=vllm', 'workers.a.nodes=2', 'workers.a.gpus=8'];
    const values = [...group, 'planner.config.rate_requests_per_second=1'];
    const rendered = readManifests(renderChart(helm, ...setting(values)));
    const map = rendered.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'stator-planner');
    expect(readClusterFleets(map?.data?.['fleets.json'] ?? '', 'the values').fleets).toMatchObject([
      { pools: { decode: { gpusPerReplica: 16, options: [{ group: 'LeaderWorkerSet/stator-worker-a' }] } } },
    ]);
    const role = rendered.find(({ kind, metadata }) => kind === 'Role' && metadata.name === 'stator-planner');
    expect(role?.rules).toContainEqual({
      apiGroups: ['leaderworkerset.x-k8s.io'],
      resources: ['leaderworkersets/scale'],
      resourceNames: ['stator-worker-a'],
      verbs: ['get', 'update'],
    });
  });

  it('may change nothing if it only advises', () => {
    const rendered = readManifests(renderChart(helm, ...setting([...ONE, 'planner.config.advisory=true'])));
    const role = rendered.find(({ kind, metadata }) => kind === 'Role' && metadata.name === 'stator-planner');
    const verbs = new Set(role?.rules?.flatMap((rule) => rule.verbs));
    expect([...verbs].sort()).toEqual(['get', 'list', 'watch']);
  });

  it('may read the claims of pods that have GPUs by DRA, each with a claim of its own', () => {
    const text = renderChart(helm, ...PLANNED, ...setting(['workers.zeta.gpuClass=gpu.nvidia.com']));
    const claiming = readManifests(text);
    const exactly = { deviceClassName: 'gpu.nvidia.com', allocationMode: 'ExactCount', count: 4 };
    const template = claiming.find(({ kind }) => kind === 'ResourceClaimTemplate');
    expect(template).toMatchObject({ spec: { spec: { devices: { requests: [{ name: 'gpus', exactly }] } } } });
    const podOf = (name: string) => workloadsOf(claiming).find((each) => each.name === name)?.pod;
    expect(podOf('stator-worker-zeta')).toMatchObject({
      resourceClaims: [{ name: 'gpus', resourceClaimTemplateName: template?.metadata.name }],
      containers: [{ resources: { claims: [{ name: 'gpus' }] } }],
    });
    expect(JSON.stringify(podOf('stator-worker-zeta'))).not.toContain('nvidia.com/gpu');
    expect(podOf('stator-worker-alpha')).toMatchObject({
      containers: [{ resources: { limits: { 'nvidia.com/gpu': 4 } } }],
    });
    const isRight = (rule: { readonly resources: readonly string[] }): boolean =>
      rule.resources[0] === 'resourceclaims';
    const rightsIn = (objects: typeof manifests) =>
      objects.flatMap(({ metadata, rules = [] }) =>
        rules.filter(isRight).map(({ verbs }) => [metadata.name, ...verbs]),
      );
    expect([rightsIn(manifests), rightsIn(claiming)]).toEqual([[], [['stator-planner', 'list']]]);
  });

  it('decides the numbers of its workers, and of no others', () => {
    const workers = workloadsOf(manifests).filter(({ labels }) => labels['app.kubernetes.io/component'] === 'worker');
    expect(Object.fromEntries(workers.map(({ name, replicas }) => [name, replicas]))).toEqual({
      'stator-worker-alpha': undefined,
      'stator-worker-first': undefined,
      'stator-worker-free': 7,
      'stator-worker-zeta': undefined,
    });
  });

  it.each([
    ['keeps the number of pods that a release without it had', {}, 5],
    ['leaves the number out if the release began with it', { 'stator/replicas': 'planner' }, undefined],
  ])('%s', async (_, annotations, replicas) => {
    const workloads = workloadsOf(await renderBeside(annotations, ONE));
    expect(workloads.find(({ name }) => name === 'stator-worker-a')?.replicas).toBe(replicas);
  });

  it('hears frontends that hold requests for its model', () => {
    const frontend = workloadsOf(manifests).find(({ name }) => name === 'stator-frontend');
    const facts = new Proxy({}, { get: () => 'f' }) as Readonly<Record<string, string>>;
    expect(frontend && environmentOf(frontend.container, facts)).toMatchObject({
      STATOR_HOLD_TIMEOUT: '99',
      STATOR_PLANNED_MODELS: 'dynamo#served',
    });
  });

  it('shows pods of its namespace only its metrics, and may connect to NATS', () => {
    const policy = (name: string) =>
      JSON.stringify(manifests.find(({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === name));
    expect(policy('stator-planner')).toContain('"ingress":[{"ports":[{"port":9085}],"from":[{"podSelector":{}}]}]');
    expect(policy('stator-nats')).toContain('"app.kubernetes.io/component":"planner"');
  });

  it.each([
    [['planner.enabled=true'], /planner\.pools: needed/],
    [[...POOL, 'planner.pools[0].max=3'], /\/planner\/pools\/0'.*pool/],
    [[...POOL, ...entry(0, 'b')], /planner\.pools\[0\]\.pool: workers has no pool b/],
    [[...ONE, 'workers.a.replicas=2'], /workers\.a\.replicas: the planner decides it.*planner\.pools\[0\]/],
    [[...ONE, 'planner.pools[0].min=4'], /planner\.pools\[0\]\.min: must not exceed max \(3\)/],
    [[...ONE, 'planner.pools[0].market=auction'], /\/planner\/pools\/0\/market/],
    [[...ONE, ...entry(1, 'a')], /planner\.pools\[1\]\.pool: a is there twice/],
    [
      [...ONE, ...second('engine=mocker', 'model=other'), 'planner.model=x'],
      /planner\.model: the pools serve 2 models/,
    ],
    [
      [...ONE, ...second('engine=mocker', 'model=other'), 'planner.models.m.name=other'],
      /two models have the name other/,
    ],
    [[...ONE, 'planner.models.z.name=y'], /planner\.models: no pool of workers serves z/],
    [[...ONE, 'planner.models.m.rate=1'], /\/planner\/models\/m'.*rate/],
    [[...ONE, 'workers.a.autoscaled=true'], /workers\.a\.autoscaled: the planner scales the pool/],
    [[...ONE, ...second('engine=mocker', 'model=m', 'mode=decode')], /\[1\]\.pool: b has the mode decode/],
    [[...ONE, ...second('engine=vllm', 'model=m', 'gpus=2')], /workers\.b\.gpus.*same number, here 1/],
    [[...ONE, 'workers.a.engine=vllm'], /planner\.config\.rate_requests_per_second: needed/],
    [[...ONE, 'planner.config.rate_requests_per_second=many'], /\/planner\/config\/rate_requests_per_second/],
    [[...ONE, 'planner.env.STATOR_PLANNER_DIR=x'], /planner\.env\.STATOR_PLANNER_DIR/],
    [[...ONE, 'frontend.env.STATOR_HOLD_TIMEOUT=1'], /frontend\.env\.STATOR_HOLD_TIMEOUT/],
  ])('refuses %s by its name', (values, message) => {
    expect(spawnSync(helm, [...TEMPLATE, ...setting(values)], { encoding: 'utf8' }).stderr).toMatch(message);
  });
});
