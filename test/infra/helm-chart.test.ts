import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import packageJson from '../../package.json' with { type: 'json' };
import { machineToCome, type Process, resolveConfig } from '../../shared/config/index.ts';
import { readBlocks } from '../support/docs/blocks.ts';
import { chartFiles, EXAMPLES, KUBERNETES, plainManifests, renderChart } from '../support/docs/render-kubernetes.ts';
import { environmentOf, type Manifest, readManifests, workloadsOf } from '../support/kube/manifests.ts';
import { PLANNED } from '../support/kube/planned-values.ts';

const helm = process.env.STATOR_TEST_HELM_BIN ?? '';
const python = process.env.STATOR_TEST_KUBERNETES_SCHEMAS_PYTHON ?? '';
const CHART = 'deploy/kubernetes/chart';
/** Values that add what no example has. */
const EVERYTHING = [
  ...['router.enabled=true', 'apiKeys.secret=keys', 'hub.secret=hub', 'frontend.service.type=LoadBalancer'],
  ...['monitoring.serviceMonitor=true', 'monitoring.dashboard=true'],
  ...['workers.mock.engine=mocker', 'workers.mock.model=stator-mini', 'workers.mock.podAnnotations.a=b'],
  ...['workers.first.engine=vllm', 'workers.first.model=m', 'workers.first.mode=prefill', 'workers.first.gpus=8'],
  ...['workers.first.arguments[0]=--kv-transfer-config={"kv_connector":"NixlConnector"\\,"kv_role":"kv_both"}'],
  ...['workers.first.cache.claim=models', 'networkPolicy.clients[0].ipBlock.cidr=10.0.0.0/8'],
].flatMap((value) => ['--set', value]);
const DRA = 'GPUs by DRA';
/** Values of workers behind gateways that ask an endpoint picker. */
const PICKED = [
  ...['endpointPicker.enabled=true', 'endpointPicker.fallbacks=1'],
  ...['endpointPicker.gateways[0].namespaceSelector.matchLabels.name=gateways'],
  ...['workers.mock.engine=mocker', 'workers.mock.model=stator-mini', 'workers.mock.drainSecs=90'],
].flatMap((value) => ['--set', value]);
/** Values of workers that need two pods, and of one that a scaler of the operator scales. */
const GROUPS = [
  ...['planner.enabled=true', 'planner.config.rate_requests_per_second=2', 'planner.config.advisory=true'],
  ...['planner.pools[0].pool=wide', 'planner.pools[0].min=0', 'planner.pools[0].max=2'],
  ...['workers.wide.engine=vllm', 'workers.wide.model=m', 'workers.wide.nodes=2', 'workers.wide.gpus=8'],
  ...['workers.wide.arguments[0]=--tensor-parallel-size=16', 'workers.wide.exclusiveTopology=example.com/rack'],
  ...['workers.tall.engine=sglang', 'workers.tall.model=n', 'workers.tall.nodes=4', 'workers.tall.rollout=replace'],
  ...['workers.own.engine=mocker', 'workers.own.model=o', 'workers.own.autoscaled=true'],
].flatMap((value) => ['--set', value]);
const RENDERED: readonly (readonly [name: string, args: readonly string[]])[] = [
  ...EXAMPLES.map((name) => [name, ['--values', `deploy/kubernetes/values/${name}.yaml`]] as const),
  ['everything', EVERYTHING],
  ['ZeroMQ', [...EVERYTHING, '--set', 'events=zmq']],
  ['a planner', PLANNED],
  [DRA, [...PLANNED, '--set', 'workers.zeta.gpuClass=gpu.nvidia.com']],
  ['a planner and ZeroMQ', [...PLANNED, '--set', 'events=zmq', '--set', 'planner.storageGb=0']],
  ['NATS with TLS', [...PLANNED, '--set', 'nats.tls.secret=nats-certificate']],
  [
    'NATS of your own with TLS',
    [...EVERYTHING, '--set', 'nats.enabled=false,nats.url=tls://other:4222,nats.tls.ca=ca,nats.tls.client=mine'],
  ],
  ['workers of two pods', [...GROUPS, '--set', 'events=zmq']],
  ['an endpoint picker', PICKED],
  ['an endpoint picker and ZeroMQ', [...PICKED, '--set', 'events=zmq']],
  ['an endpoint picker and NATS with TLS', [...PICKED, '--set', 'nats.tls.secret=nats-certificate']],
  ['NATS of your own', [...EVERYTHING, '--set', 'nats.enabled=false,nats.url=nats://other:4222,nats.users=true']],
];
/** Blocks of YAML of the page about Kubernetes. */
const PAGE = readBlocks('docs/kubernetes.md', readFileSync('docs/kubernetes.md', 'utf8')).filter(
  ({ language }) => language === 'yaml',
);
/** Stands in for every secret and field of the pod. */
const FACTS = new Proxy({}, { get: () => 'f'.repeat(64) }) as Readonly<Record<string, string>>;

/** Returns what Helm says of the values that it refuses; empty if it accepts them. */
function refusal(...values: readonly string[]): string {
  return refusalIn(KUBERNETES, ...values);
}

function refusalIn(kubernetes: string, ...values: readonly string[]): string {
  const sets = values.flatMap((value) => ['--set', value]);
  const args = ['template', 'stator', CHART, '--kube-version', kubernetes, ...sets];
  return spawnSync(helm, args, { encoding: 'utf8' }).stderr;
}

describe.skipIf(helm === '')('the Helm chart', () => {
  it('passes the linter of Helm', () => {
    const args = ['lint', CHART, '--strict', '--kube-version', KUBERNETES];
    for (const name of EXAMPLES) {
      const values = ['--values', `deploy/kubernetes/values/${name}.yaml`];
      expect(execFileSync(helm, [...args, ...values], { encoding: 'utf8' })).toContain('0 chart(s) failed');
    }
  });

  it('is what the plain manifests were rendered from', () => {
    for (const [path, text] of Object.entries({ ...chartFiles(), ...plainManifests(helm) }))
      expect(readFileSync(path, 'utf8') === text, `${path} is old: npm run kubernetes`).toBe(true);
  });

  it('has the version of the package', () => {
    const { version, appVersion } = parse(readFileSync(`${CHART}/Chart.yaml`, 'utf8')) as Record<string, string>;
    expect([version, appVersion]).toEqual([packageJson.version, packageJson.version]);
  });

  it.each(RENDERED)('starts processes that accept all their flags and variables: %s', (_, args) => {
    const workloads = workloadsOf(readManifests(renderChart(helm, ...args)));
    const ours = workloads.filter(({ container }) => !container.image.includes('nats'));
    expect(ours.length).toBeGreaterThanOrEqual(2);
    for (const { container } of ours) {
      const [command = '', ...argv] = container.args;
      const env = environmentOf(container, FACTS);
      const { warnings } = resolveConfig(command as Process, argv, env, {
        surroundings: machineToCome(command as Process, env, argv),
      });
      expect(warnings).toEqual([]);
    }
  });

  it.each(RENDERED)('gives no process more than it needs: %s', (_, args) => {
    for (const { name, pod, container } of workloadsOf(readManifests(renderChart(helm, ...args)))) {
      expect(pod.securityContext, name).toMatchObject({
        runAsNonRoot: true,
        runAsUser: 1000,
        seccompProfile: { type: 'RuntimeDefault' },
      });
      expect(container.securityContext, name).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
    }
  });

  it.each(RENDERED)('leaves each process the time of its drain: %s', (_, args) => {
    for (const { name, pod, container } of workloadsOf(readManifests(renderChart(helm, ...args)))) {
      if (container.image.includes('nats')) continue;
      const env: Readonly<Record<string, string>> = environmentOf(container, FACTS);
      const drain = env.DYN_HTTP_GRACEFUL_SHUTDOWN_TIMEOUT_SECS ?? env.DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS;
      const before = container.lifecycle?.preStop.sleep.seconds ?? 0;
      expect(pod.terminationGracePeriodSeconds, name).toBeGreaterThanOrEqual(Number(drain ?? 0) + before + 10);
    }
  });

  it('lets metrics keep their labels, of which the Prometheus operator has some, too', () => {
    const rendered = readManifests(renderChart(helm, '--set', 'monitoring.serviceMonitor=true'));
    const read = rendered.flatMap(({ kind, spec }) =>
      kind === 'ServiceMonitor' ? (spec as { endpoints: readonly object[] }).endpoints : [],
    );
    expect(read.length).toBeGreaterThan(0);
    for (const endpoint of read) expect(endpoint).toMatchObject({ honorLabels: true });
  });

  it.each([
    ['frontend.replicas=some', /\/frontend\/replicas/],
    ['frontend.replica=3', /\/frontend'.*replica'/],
    ['frontends.replicas=3', /frontends/],
    ['events=kafka', /\/events/],
    ['workers.a.engine=mocker', /\/workers\/a'.*model/],
    ['workers.a.engine=tgi,workers.a.model=m', /\/workers\/a\/engine/],
    ['workers.A.engine=mocker,workers.A.model=m', /\/workers/],
    ['workers.a.engine=mocker,workers.a.model=m,workers.a.gpus=1', /workers\.a\.gpus/],
    ['workers.a.engine=mocker,workers.a.model=m,workers.a.gpuClass=gpu.nvidia.com', /workers\.a\.gpuClass/],
    ['workers.a.engine=vllm,workers.a.model=m,workers.a.moveAfterSecs=400', /workers\.a\.moveAfterSecs.*300/],
    ['frontend.env.DYN_HTTP_PORT=80', /frontend\.env\.DYN_HTTP_PORT/],
    ['workers.a.engine=vllm,workers.a.model=m,workers.a.env.POD_NAME=x', /workers\.a\.env\.POD_NAME/],
    ['nats.enabled=false', /nats\.url/],
    ['nats.url=http://nats', /\/nats\/url/],
    ['nats.tls.ca=ca', /nats\.tls\.ca: needs nats\.tls\.secret/],
    ['nats.tls.client=mine', /nats\.tls\.client: .*nats\.enabled: false/],
    ['nats.tls.secret=Nats', /\/nats\/tls\/secret/],
    ['nats.enabled=false,nats.url=tls://a:4222,nats.tls.secret=mine', /nats\.tls\.secret: .*nats\.tls\.ca/],
    ['nats.enabled=false,nats.url=nats://a:4222,nats.tls.ca=ca', /nats\.url: must begin with tls:\/\//],
    ['workers.a.engine=mocker,workers.a.model=m,workers.a.nodes=2', /workers\.a\.nodes/],
    ['workers.a.engine=vllm,workers.a.model=m,workers.a.nodes=0', /\/workers\/a\/nodes/],
    ['workers.a.engine=vllm,workers.a.model=m,workers.a.exclusiveTopology=rack', /exclusiveTopology.*set nodes/],
    [
      'workers.a.engine=mocker,workers.a.model=m,workers.a.autoscaled=true,workers.a.replicas=2',
      /workers\.a\.replicas/,
    ],
    [
      'workers.a.engine=vllm,workers.a.model=m,workers.a.nodes=2,workers.a.arguments[0]=--node_rank=1',
      /workers\.a\.arguments: the chart sets --node_rank=1/,
    ],
    ['endpointPicker.enabled=true,apiKeys.secret=keys', /endpointPicker\.enabled: .*apiKeys\.secret/],
    [
      'endpointPicker.enabled=true,endpointPicker.env.STATOR_ENDPOINT_PICKER_PORT=1',
      /endpointPicker\.env\.STATOR_ENDPOINT_PICKER_PORT/,
    ],
    ['secret=', /\/secret/],
  ])('refuses %s by its name', (value, message) => {
    expect(refusal(value)).toMatch(message);
  });

  it('runs an engine that needs several pods as a group of them', () => {
    const manifests = readManifests(renderChart(helm, ...GROUPS));
    const argumentsOf = (pool: string, isFirst: boolean) =>
      workloadsOf(manifests).find((each) => each.name === `stator-worker-${pool}` && each.isFirst === isFirst)
        ?.container.args;
    const group = ['--nnodes=$(LWS_GROUP_SIZE)', '--node-rank=$(LWS_WORKER_INDEX)'];
    const vllm = [...group, '--master-addr=$(LWS_LEADER_ADDRESS)', '--distributed-executor-backend=mp'];
    const wide = ['worker', '--engine=vllm', '--model=m', '--tensor-parallel-size=16', ...vllm];
    expect(argumentsOf('wide', true)).toEqual(wide);
    expect(argumentsOf('wide', false)).toEqual([...wide, '--headless']);
    const sglang = [...group, '--dist-init-addr=$(LWS_LEADER_ADDRESS):20000'];
    expect(argumentsOf('tall', false)).toEqual(['worker', '--engine=sglang', '--model=n', ...sglang, '--headless']);
    const sets = manifests.filter(({ kind }) => kind === 'LeaderWorkerSet');
    expect(sets).toMatchObject([
      { metadata: { name: 'stator-worker-tall' }, spec: { replicas: 1, leaderWorkerTemplate: { size: 4 } } },
      {
        metadata: {
          name: 'stator-worker-wide',
          annotations: { 'leaderworkerset.sigs.k8s.io/exclusive-topology': 'example.com/rack' },
        },
        spec: { leaderWorkerTemplate: { size: 2 } },
      },
    ]);
    expect(sets[1]?.spec.replicas).toBeUndefined();
  });

  it('holds requests for a model that a scaler of yours scales, and leaves its number of pods out', () => {
    const own = ['workers.own.engine=mocker', 'workers.own.model=o', 'workers.own.autoscaled=true'];
    const workloads = workloadsOf(readManifests(renderChart(helm, ...own.flatMap((value) => ['--set', value]))));
    const frontend = workloads.find(({ name }) => name === 'stator-frontend');
    expect(frontend && environmentOf(frontend.container, FACTS)).toMatchObject({
      STATOR_HOLD_TIMEOUT: '600',
      STATOR_PLANNED_MODELS: 'dynamo#o',
    });
    expect(workloads.find(({ name }) => name === 'stator-worker-own')?.replicas).toBeUndefined();
  });

  it('runs an endpoint picker, and a frontend beside each worker whose endpoints its pool names', () => {
    const manifests = readManifests(renderChart(helm, ...PICKED));
    const named = (kind: string, name: string) =>
      manifests.find((each) => each.kind === kind && each.metadata.name === name);
    expect(named('InferencePool', 'stator')).toMatchObject({
      apiVersion: 'inference.networking.k8s.io/v1',
      spec: {
        selector: { matchLabels: { 'app.kubernetes.io/component': 'worker' } },
        targetPorts: [{ number: 8000 }],
        endpointPickerRef: { name: 'stator-picker', port: { number: 9002 } },
      },
    });
    expect(named('Service', 'stator-picker')).toMatchObject({ spec: { ports: [{ port: 9002 }, { port: 8000 }] } });
    const beside = workloadsOf(manifests).find(({ container }) => container.name === 'http');
    expect(beside?.name).toBe('stator-worker-mock');
    const env = beside && environmentOf(beside.container, FACTS);
    expect(env).toMatchObject({ DYN_ROUTER_MODE: 'direct', DYN_HTTP_PORT: '8000' });
  });

  it('gives processes no key of the NATS server of the chart', () => {
    const manifests = readManifests(renderChart(helm, ...PLANNED, '--set', 'nats.tls.secret=certificate'));
    const keys = workloadsOf(manifests).filter(({ pod }) => JSON.stringify(pod).includes('"tls.key"'));
    expect(keys.map(({ name }) => name)).toEqual(['stator-nats']);
    const others = workloadsOf(manifests).filter(({ name }) => name !== 'stator-nats');
    for (const { name, container } of others) {
      const expected = { NATS_SERVER: 'tls://stator-nats:4222', NATS_TLS_CA_CERT_PATH: '/etc/nats/ca.crt' };
      expect(environmentOf(container, FACTS), name).toMatchObject(expected);
    }
  });

  const values = PAGE.filter(({ text }) => text.startsWith('workers:'));
  it.each(values.map(({ place, text }) => [place, text]))('accepts the values of %s', (_, text) => {
    const given = Object.entries(parse(text) as object).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
    const manifests = readManifests(renderChart(helm, ...given.flatMap((value) => ['--set-json', value])));
    expect(workloadsOf(manifests).some(({ name }) => name.startsWith('stator-worker-'))).toBe(true);
  });

  it('refuses claims of GPUs on a Kubernetes that does not have them', () => {
    const values = ['workers.a.engine=vllm', 'workers.a.model=m', 'workers.a.gpuClass=gpu.nvidia.com'];
    expect(refusalIn('1.33.0', ...values)).toMatch(/workers\.a\.gpuClass: needs Kubernetes 1\.34, not v1\.33\.0/);
    expect(refusalIn('1.34.0', ...values)).toBe('');
  });

  it('names another template of claims for other devices, because no template can be changed', () => {
    const named = (gpus: number, gpuClass: string) => {
      const values = { engine: 'vllm', model: 'm', gpus, gpuClass };
      const objects = readManifests(renderChart(helm, '--set-json', `workers.a=${JSON.stringify(values)}`));
      const name = objects.find(({ kind }) => kind === 'ResourceClaimTemplate')?.metadata.name;
      const pod = workloadsOf(objects).find((each) => each.name === 'stator-worker-a')?.pod;
      expect(pod).toMatchObject({ resourceClaims: [{ name: 'gpus', resourceClaimTemplateName: name }] });
      return name;
    };
    const names = [named(1, 'gpu.nvidia.com'), named(2, 'gpu.nvidia.com'), named(1, 'mig.nvidia.com')];
    expect(new Set(names).size).toBe(3);
    expect(named(1, 'gpu.nvidia.com')).toBe(names[0]);
  });

  it('opens the planes of the fleet to no other pod', () => {
    const policies = readManifests(renderChart(helm, ...EVERYTHING)).filter(({ kind }) => kind === 'NetworkPolicy');
    type Rule = { readonly from?: readonly unknown[]; readonly ports?: readonly { readonly port: number }[] };
    const rules = policies.flatMap(({ metadata: { name }, spec }) =>
      (spec as unknown as { readonly ingress: readonly Rule[] }).ingress.map((rule) => ({ name, ...rule })),
    );
    const open = rules.filter(({ from }) => JSON.stringify(from ?? 'all').match(/"all"|podSelector":\{\}/));
    const opened = open.map(({ name, ports }) => [name, ports?.map(({ port }) => port)]);
    expect(opened.sort()).toEqual([
      ['stator-router', [8000]],
      ['stator-worker', [9100]],
    ]);
    expect(policies.map(({ metadata: { name } }) => name).sort()).toEqual([
      'stator-frontend',
      'stator-nats',
      'stator-router',
      'stator-worker',
    ]);
  });
});

/** Returns the templates of a LeaderWorkerSet, whose own fields Kubernetes does not know. */
function templatesOf({ metadata, spec }: Manifest): readonly object[] {
  const { leaderTemplate, workerTemplate } = spec.leaderWorkerTemplate ?? {};
  return [leaderTemplate, workerTemplate].map((template) => ({
    ...{ apiVersion: 'v1', kind: 'PodTemplate', metadata, template },
  }));
}

/** Kinds of the Prometheus operator, KEDA, Karpenter and the Gateway API inference extension. */
const FOREIGN: ReadonlySet<string> = new Set(['ServiceMonitor', 'ScaledObject', 'NodePool', 'InferencePool']);

const VALIDATE = `
import json, sys, kubernetes_validate
for item in json.load(sys.stdin):
    try: kubernetes_validate.validate(item, sys.argv[1], strict=True)
    except Exception as e: print(item["kind"], item["metadata"]["name"], e)
`;

describe.skipIf(helm === '' || python === '')('each object of the Helm chart', () => {
  it.each(['1.30', '1.37'])(
    'has the fields that Kubernetes %s knows',
    (version) => {
      const examples = RENDERED.filter(([name]) => name !== DRA || version !== '1.30');
      const rendered = examples.flatMap(([, args]) => readManifests(renderChart(helm, ...args)));
      const known = rendered.filter(({ kind }) => !FOREIGN.has(kind));
      const shown = PAGE.filter(({ text }) => /^apiVersion:/m.test(text)).flatMap(({ text }) => readManifests(text));
      const ofPage = shown.filter(({ kind }) => kind !== undefined && !FOREIGN.has(kind));
      const objects = [...known, ...ofPage].flatMap((each) =>
        each.kind === 'LeaderWorkerSet' ? templatesOf(each) : [each],
      );
      const input = `[${[...new Set(objects.map((each) => JSON.stringify(each)))].join()}]`; // many renderings share objects
      expect(execFileSync(python, ['-c', VALIDATE, version], { encoding: 'utf8', input })).toBe('');
    },
    120_000,
  );
});
