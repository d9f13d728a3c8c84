import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { hasGroupController } from '../support/kube/group-controller.ts';
import { hasKubeServer, KubeServer } from '../support/kube/kube-server.ts';
import { groupDefinitions } from '../support/tools/group-controller.ts';
import { waitUntil } from '../support/wait-until.ts';
import {
  CLUSTER,
  deployEks,
  EKS_MODELS,
  type EksFleetConfig,
  type KubeDocument,
  OURS,
  YOURS,
} from './eks-deployments.ts';

/** Kinds of objects in manifests, by their places in the API. Only EKS knows the others. */
const PLACES: Readonly<Record<string, string>> = {
  ServiceAccount: 'api/v1/namespaces/stator/serviceaccounts',
  Deployment: 'apis/apps/v1/namespaces/stator/deployments',
  LeaderWorkerSet: 'apis/leaderworkerset.x-k8s.io/v1/namespaces/stator/leaderworkersets',
  PodDisruptionBudget: 'apis/policy/v1/namespaces/stator/poddisruptionbudgets',
  ResourceClaimTemplate: 'apis/resource.k8s.io/v1/namespaces/stator/resourceclaimtemplates',
  Role: 'apis/rbac.authorization.k8s.io/v1/namespaces/stator/roles',
  RoleBinding: 'apis/rbac.authorization.k8s.io/v1/namespaces/stator/rolebindings',
  Namespace: 'api/v1/namespaces',
  NodePool: 'apis/karpenter.sh/v1/nodepools',
  EC2NodeClass: 'apis/karpenter.k8s.aws/v1/ec2nodeclasses',
};

const CHAT = OURS.fleets?.chat as EksFleetConfig;
const KARPENTER = { cluster: { ...CLUSTER, nodes: 'karpenter' as const, nodeRole: 'Nodes' } };
const ZONES = ['eu-west-1a'];

/** Fleets that have everything which the example does without, on nodes of Karpenter. */
function special(): readonly KubeDocument[] {
  const common = { ...CHAT, gpuClaims: true, efa: true };
  const weights = { uri: 's3://my-models/qwen3-32b/9216db5/', mode: 'disk' as const, bytes: 50e9 };
  const chat = { ...common, weights, options: [{ types: ['g6e.48xlarge'], zones: ZONES, max: 24 }] };
  const reserved = { market: 'reservation' as const, reservationId: 'cr-0123456789abcdef0' };
  const wide = {
    ...common,
    model: 'deepseek-ai/DeepSeek-V3.1',
    engine: { ...common.engine, gpusPerReplica: 16 },
    options: [{ types: ['p5.48xlarge'], zones: ZONES, max: 2, ...reserved }],
    replicas: { max: 2 },
  };
  const { objects } = deployEks({ ...YOURS, eks: KARPENTER, models: EKS_MODELS, fleets: { chat, wide } });
  return ['Eks', 'Fleet-chat-a1', 'Fleet-wide-a1'].flatMap(objects);
}

/** Puts values into the places for those that only a deployment knows. */
function filled(object: KubeDocument): object {
  const text = JSON.stringify(object).replaceAll(/<stator:SecurityGroup\d+>/g, CLUSTER.securityGroupId);
  return JSON.parse(text.replaceAll(/<stator:(\w+)>/g, '$1')) as object;
}

const hasDefinitions = hasGroupController() && Boolean(process.env.STATOR_TEST_KARPENTER_CRDS);

describe.runIf(hasKubeServer() && hasDefinitions)('an API server', { timeout: 180_000 }, () => {
  let server: KubeServer;
  beforeAll(async () => {
    server = await KubeServer.start();
    const karpenter = process.env.STATOR_TEST_KARPENTER_CRDS ?? '';
    const filesIn = async (folder: string) => (await readdir(folder)).map((name) => join(folder, name));
    const files = await Promise.all([groupDefinitions, karpenter].map(filesIn));
    for (const file of files.flat()) {
      const definition = parse(await readFile(file, 'utf8')) as object;
      await server.call('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', definition);
    }
    const [namespace] = deployEks().objects('Eks');
    await server.call('POST', '/api/v1/namespaces?fieldValidation=Strict', namespace);
  }, 180_000);
  afterAll(() => server?.stop());

  it('takes every object of the manifests of fleets on EKS, and knows every field of them', async () => {
    const example = deployEks();
    const all = [...['Fleet-chat-a1', 'Fleet-large'].flatMap(example.objects), ...special()];
    expect([...new Set(all.map(({ kind }) => kind))].sort()).toEqual(Object.keys(PLACES).sort());
    for (const object of all.filter(({ kind }) => kind !== 'Namespace')) {
      const path = `/${PLACES[object.kind]}?dryRun=All&fieldValidation=Strict`;
      // The server learns of a new kind a moment later.
      const add = () => server.call('POST', path, filled(object));
      const added = await waitUntil(add, { what: `${object.kind} ${object.metadata.name}`, timeoutMs: 30_000 });
      expect(added).toMatchObject({ kind: object.kind, metadata: { name: object.metadata.name } });
    }
  });

  it('takes the manifest of pods that claim another number of GPUs over the earlier one', async () => {
    const options = [{ types: ['g6e.12xlarge'], max: 24 }];
    for (const gpusPerReplica of [2, 4]) {
      const chat = { ...CHAT, gpuClaims: true, engine: { ...CHAT.engine, gpusPerReplica }, options };
      const { objects } = deployEks({ ...OURS, models: EKS_MODELS, fleets: { chat } });
      for (const object of objects('Fleet-chat-a1')) {
        if (!['ResourceClaimTemplate', 'Deployment'].includes(object.kind)) continue;
        const path = `/${PLACES[object.kind]}/${object.metadata.name}?fieldManager=stator`;
        await expect(server.call('PATCH', path, filled(object))).resolves.toMatchObject({ kind: object.kind });
      }
    }
  });
});
