import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { machineToCome, resolveConfig } from '../../shared/config/index.ts';
import { environmentOf, type Manifest, readManifests, workloadsOf } from '../support/kube/manifests.ts';
import {
  CLUSTER,
  deployEks,
  EKS_MODELS,
  type EksFleetConfig,
  type KubeDocument,
  OURS,
  YOURS,
} from './eks-deployments.ts';

interface Pod {
  readonly spec: {
    readonly containers: readonly [{ readonly args: readonly string[] }];
    readonly [field: string]: unknown;
  };
}

const python = process.env.STATOR_TEST_KUBERNETES_SCHEMAS_PYTHON ?? '';
const CHAT = OURS.fleets?.chat as EksFleetConfig;

/** A fleet with the values of the pool `chat` of the chart's example for vLLM, whose longest start is 1800 s. */
const LIKE_CHART: EksFleetConfig = {
  kind: 'eks',
  model: 'Qwen/Qwen3-32B',
  engine: { ...CHAT.engine, gpusPerReplica: 1 },
  options: [{ types: ['g6.xlarge'], max: 2 }],
  replicas: { max: 2 },
  startSecs: 900,
  drainSecs: 300,
};
const { objects } = deployEks({ ...OURS, models: EKS_MODELS, fleets: { chat: LIKE_CHART } });
const ofChart = readManifests(readFileSync('deploy/kubernetes/manifests/vllm.yaml', 'utf8'));
const [here] = workloadsIn(objects('Fleet-chat'));
const there = workloadsOf(ofChart).find(({ name }) => name === 'stator-worker-chat');

/** Returns the Deployments of a manifest. A node pool has a template, too. */
function workloadsIn(all: readonly KubeDocument[]) {
  return workloadsOf(all.filter(({ kind }) => kind === 'Deployment') as unknown as readonly Manifest[]);
}

/** Fields that differ, and why. */
const DIFFERENCES = {
  pod: {
    serviceAccountName: 'each fleet has a role of its own',
    automountServiceAccountToken: 'workers are found in a table, and not by the API of Kubernetes',
    nodeSelector: 'each option has its own nodes',
    topologySpreadConstraints: 'labels',
    containers: 'compared by itself',
    volumes: 'compared by itself',
  },
  container: {
    image: 'the settings name it',
    args: 'the settings of a fleet',
    env: 'compared by itself',
    resources: 'a share of the smallest node',
  },
  environment: {
    DYN_DISCOVERY_BACKEND: 'dynamodb',
    DYN_KUBE_DISCOVERY_MODE: 'of Kubernetes',
    POD_NAMESPACE: 'of Kubernetes',
    POD_UID: 'of Kubernetes',
    POD_ZONE: 'a fact of the machine',
    DYN_NAMESPACE: 'the default',
    NATS_SERVER: 'in ECS',
    NATS_AUTH_USERNAME: 'comes with the secret',
    NATS_AUTH_PASSWORD: 'comes with the secret',
    STATOR_PLANE_TOKEN: 'the worker reads its secrets itself',
    STATOR_PLANE_TOKEN_PREVIOUS: 'the worker reads its secrets itself',
  },
} as const;
const without = (object: object, differences: object) =>
  Object.fromEntries(Object.entries(object).filter(([key]) => !Object.hasOwn(differences, key)));

describe('a worker on EKS and a worker of the Helm chart', { timeout: 120_000 }, () => {
  it('have the same security, drain and volumes, except that downloads get the part of the disk that is left', () => {
    expect(without(here!.pod, DIFFERENCES.pod)).toEqual(without(there!.pod, DIFFERENCES.pod));
    const volumesOf = ({ pod }: typeof here & object) =>
      (pod as unknown as { volumes: readonly { name: string }[] }).volumes.map((each) =>
        each.name === 'models' ? { name: each.name } : each,
      );
    expect(volumesOf(here!)).toEqual(volumesOf(there!));
  });

  it('are groups of pods alike, if an engine spans several nodes', () => {
    const groupIn = (all: readonly KubeDocument[]) => all.find(({ kind }) => kind === 'LeaderWorkerSet')!.spec;
    const large: EksFleetConfig = {
      ...LIKE_CHART,
      engine: { ...CHAT.engine, kind: 'sglang', gpusPerReplica: 16, args: [] },
      options: [{ types: ['p5.48xlarge'], zones: ['eu-west-1a'], max: 1 }],
      replicas: { max: 1 },
      startSecs: 1800,
    };
    const config = { ...OURS, models: EKS_MODELS, fleets: { large } };
    const mine = groupIn(deployEks(config).objects('Fleet-large'));
    const text = readFileSync('deploy/kubernetes/manifests/multi-node.yaml', 'utf8');
    const theirs = groupIn(readManifests(text) as unknown as readonly KubeDocument[]);
    const own = { replicas: 'a planner sets it', rolloutStrategy: 'an update of the example has no spare GPUs' };
    const templates = { leaderTemplate: 'compared by itself', workerTemplate: 'compared by itself' };
    const groupOf = (spec: KubeDocument['spec']) => spec.leaderWorkerTemplate as Record<string, Pod>;
    expect(without({ ...mine, leaderWorkerTemplate: without(groupOf(mine), templates) }, own)).toEqual(
      without({ ...theirs, leaderWorkerTemplate: without(groupOf(theirs), templates) }, own),
    );
    for (const name of Object.keys(templates)) {
      const [one, other] = [groupOf(mine)[name]!.spec, groupOf(theirs)[name]!.spec];
      expect(without(one, DIFFERENCES.pod), name).toEqual(without(other, DIFFERENCES.pod));
      const [mineMain, theirMain] = [one.containers[0], other.containers[0]];
      expect(without(mineMain, DIFFERENCES.container), name).toEqual(without(theirMain, DIFFERENCES.container));
      const ofGroup = (args: readonly string[]) => args.slice(args.indexOf('--nnodes=$(LWS_GROUP_SIZE)'));
      expect(ofGroup(mineMain.args), name).toEqual(ofGroup(theirMain.args));
    }
  });

  it('have the same probes, ports and mounts', () => {
    expect(without(here!.container, DIFFERENCES.container)).toEqual(without(there!.container, DIFFERENCES.container));
  });

  it('spread over zones alike, but not over machines, of which Karpenter would start one for each', () => {
    const spreadOf = ({ pod }: typeof here & object) =>
      (pod as unknown as { topologySpreadConstraints: readonly object[] }).topologySpreadConstraints.map((each) =>
        without(each, { labelSelector: 'labels' }),
      );
    expect(spreadOf(here!)).toEqual(spreadOf(there!).slice(0, 1));
  });

  it('have the same variables, except for those by which they find their fleet', () => {
    const facts = new Proxy({}, { get: () => 'a' }) as Readonly<Record<string, string>>;
    const known = without(environmentOf(here!.container, facts), {
      ...DIFFERENCES.environment,
      AWS_REGION: 'of AWS',
      DYN_LOG: 'of the deployment',
      STATOR_DISCOVERY_TABLE: 'of the deployment',
      STATOR_HOST_FACTS: 'the market of the option',
      STATOR_NATS_SECRET: 'the worker reads its secrets itself',
      STATOR_NATS_STREAM_REPLICAS: 'in ECS',
      STATOR_PLANE_TOKEN_SECRET: 'the worker reads its secrets itself',
    });
    expect(known).toEqual(without(environmentOf(there!.container, facts), DIFFERENCES.environment));
  });

  it('roll out and are evicted alike', () => {
    const deploymentOf = (all: readonly KubeDocument[] | readonly Manifest[], name: string) =>
      all.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === name)?.spec as Record<
        string,
        unknown
      >;
    const budgetOf = (all: readonly KubeDocument[] | readonly Manifest[], name: string) =>
      all.find(({ kind, metadata }) => kind === 'PodDisruptionBudget' && metadata.name === name)?.spec as object;
    const own = { replicas: 'a planner sets it', selector: 'labels', template: 'compared by itself' };
    const mine = objects('Fleet-chat');
    expect(without(deploymentOf(mine, 'chat-0-on-demand'), own)).toEqual(
      without(deploymentOf(ofChart, 'stator-worker-chat'), own),
    );
    expect(without(budgetOf(mine, 'chat-0-on-demand'), own)).toEqual(
      without(budgetOf(ofChart, 'stator-worker-chat'), own),
    );
  });

  it('accept all their flags and variables', () => {
    const facts = { 'metadata.name': 'chat-0', "metadata.labels['topology.kubernetes.io/zone']": 'eu-west-1a' };
    for (const { container } of workloadsIn(deployEks().objects('Fleet-chat-a1'))) {
      const [command, ...argv] = container.args;
      // Values of the deployment in their places.
      const env = Object.fromEntries(
        Object.entries(environmentOf(container, facts)).map(([name, value]) => [
          name,
          value.replace('$(POD_NAME)', 'chat-0').replace('$(POD_ZONE)', 'eu-west-1a'),
        ]),
      );
      expect(command).toBe('worker');
      const { warnings } = resolveConfig('worker', argv, env, { surroundings: machineToCome('worker', env, argv) });
      expect(warnings).toEqual([]);
    }
  });
});

const VALIDATE = `
import json, sys, kubernetes_validate
for item in json.load(sys.stdin):
    try: kubernetes_validate.validate(item, sys.argv[1], strict=True)
    except Exception as e: print(item["kind"], item["metadata"]["name"], e)
`;
/** Kinds that Kubernetes itself has; the others are of Karpenter, of EKS and of LeaderWorkerSet. */
const OF_OTHERS = ['NodePool', 'NodeClass', 'EC2NodeClass', 'LeaderWorkerSet'];

describe.skipIf(python === '')('each object of a manifest', () => {
  it.each(['1.35', '1.37'])(
    'has the fields that Kubernetes %s knows',
    (version) => {
      const karpenter = { cluster: { ...CLUSTER, nodes: 'karpenter' as const, nodeRole: 'Nodes' } };
      const deployments = [deployEks(), deployEks({ ...YOURS, eks: karpenter })];
      const all = deployments.flatMap((each) => ['Eks', 'Fleet-chat-a1', 'Fleet-large'].flatMap(each.objects));
      all.push(...deployEks({ ...OURS, models: EKS_MODELS, fleets: { chat: SPECIAL } }).objects('Fleet-chat-a1'));
      const pods = all.flatMap(({ kind, metadata, spec }) =>
        kind === 'LeaderWorkerSet' ? podsOf(metadata.name, spec) : [],
      );
      const known = [...all.filter(({ kind }) => !OF_OTHERS.includes(kind)), ...pods];
      expect(known.length).toBeGreaterThan(10);
      const input = JSON.stringify(known);
      expect(execFileSync(python, ['-c', VALIDATE, version], { encoding: 'utf8', input })).toBe('');
    },
    120_000,
  );
});

/** A fleet whose pods have everything that the example does without. */
const SPECIAL: EksFleetConfig = {
  ...CHAT,
  gpuClaims: true,
  efa: true,
  weights: { uri: 's3://my-models/qwen3-32b/9216db5/', mode: 'disk', bytes: 50e9 },
  options: [{ types: ['g6e.48xlarge'], zones: ['eu-west-1a'], max: 24 }],
};

/** Returns the pods of a group as objects that Kubernetes knows. */
function podsOf(name: string, spec: KubeDocument['spec']): readonly KubeDocument[] {
  const { leaderTemplate, workerTemplate } = spec.leaderWorkerTemplate as Record<string, KubeDocument>;
  return [leaderTemplate, workerTemplate].flatMap((template) =>
    template === undefined
      ? []
      : [{ ...template, apiVersion: 'v1', kind: 'Pod', metadata: { ...template.metadata, name } }],
  );
}
