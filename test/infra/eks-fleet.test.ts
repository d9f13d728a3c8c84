import { Annotations, Match } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { podFleetsOf } from '../../infra/constructs/eks/pod-fleets.ts';
import { readSettings, type StatorConfig } from '../../infra/settings/index.ts';
import { parsePlannerConfig } from '../../shared/planner/config.ts';
import { readClusterFleets } from '../../shared/planner/kubernetes/cluster-fleet.ts';
import type { ManifestContainer } from '../support/kube/manifests.ts';
import {
  CLUSTER,
  deployEks,
  EKS_MODELS,
  type EksFleetConfig,
  type KubeDocument,
  OURS,
  YOURS,
} from './eks-deployments.ts';
import { openApp, productionStacks, productionTemplates, statementsOf } from './templates.ts';

const CHAT = OURS.fleets?.chat as EksFleetConfig;
const EXAMPLE = deployEks();

/** The objects of `chat` in the example, with what differs. */
const chat = (more: Partial<EksFleetConfig> = {}, beside: StatorConfig = {}): readonly KubeDocument[] =>
  deployEks({ ...OURS, models: EKS_MODELS, ...beside, fleets: { chat: { ...CHAT, ...more } } }).objects(
    more.generation === undefined && 'generation' in more ? 'Fleet-chat' : 'Fleet-chat-a1',
  );
const ofKind = (objects: readonly KubeDocument[], kind: string) => objects.filter((each) => each.kind === kind);
const pick = (objects: readonly KubeDocument[], kind: string) => ofKind(objects, kind)[0]!;

interface Pod {
  readonly metadata: { readonly annotations: object };
  readonly spec: { readonly containers: readonly [ManifestContainer]; readonly [field: string]: unknown };
}
const podOf = ({ spec }: KubeDocument): Pod => spec.template as Pod;
const environmentOf = (pod: Pod) =>
  Object.fromEntries(pod.spec.containers[0].env.map(({ name, value, valueFrom }) => [name, value ?? valueFrom]));

describe('the manifest of a fleet on EKS', { timeout: 120_000 }, () => {
  it('has a workload, a node pool and a budget for each option, and names no number of pods', () => {
    const objects = EXAMPLE.objects('Fleet-chat-a1');
    const named = (kind: string) => ofKind(objects, kind).map(({ metadata: { name } }) => name);
    for (const kind of ['Deployment', 'PodDisruptionBudget'])
      expect(named(kind), kind).toEqual(['chat-a1-0-on-demand', 'chat-a1-1-spot']);
    expect(named('NodePool')).toEqual(['stator-chat-a1-0-on-demand', 'stator-chat-a1-1-spot']);
    for (const { spec } of ofKind(objects, 'Deployment')) expect(spec).not.toHaveProperty('replicas');
    for (const { kind, metadata } of objects)
      expect(metadata.namespace, kind).toBe(kind === 'NodePool' ? undefined : 'stator');
  });

  it('starts nodes of the types, the market and the zones of the option, which no other pod may use', () => {
    const [first, spot] = ofKind(EXAMPLE.objects('Fleet-chat-a1'), 'NodePool');
    expect(spot!.spec).toEqual({
      template: {
        spec: {
          nodeClassRef: { group: 'eks.amazonaws.com', kind: 'NodeClass', name: 'stator-gpu' },
          requirements: [
            { key: 'node.kubernetes.io/instance-type', operator: 'In', values: ['g6e.12xlarge', 'g6e.24xlarge'] },
            { key: 'karpenter.sh/capacity-type', operator: 'In', values: ['spot'] },
            { key: 'kubernetes.io/arch', operator: 'In', values: ['amd64'] },
            { key: 'topology.kubernetes.io/zone', operator: 'In', values: ['eu-west-1a', 'eu-west-1b'] },
          ],
          taints: [{ key: 'nvidia.com/gpu', effect: 'NoSchedule' }],
          expireAfter: '480h',
          terminationGracePeriod: '1200s',
        },
      },
      limits: { 'nvidia.com/gpu': '36' }, // 16 replicas with two GPUs, one more for an update, by nodes of four
      disruption: {
        ...{ consolidationPolicy: 'WhenEmpty', consolidateAfter: '5m' },
        budgets: [
          { reasons: ['Drifted'], nodes: '1' },
          { reasons: ['Empty'], nodes: '100%' }, // a load that falls leaves no node to wait for the end of others
        ],
      },
    });
    expect(JSON.stringify(first)).not.toContain('topology.kubernetes.io/zone');
    expect(first!.spec).toMatchObject({ limits: { 'nvidia.com/gpu': '20' } });
  });

  it('gives a node the time of a long drain', () => {
    expect(pick(chat({ drainSecs: 1500 }), 'NodePool').spec).toMatchObject({
      template: { spec: { terminationGracePeriod: '1800s' } },
    });
  });

  it('runs pods on the nodes of their option, with their share of the smallest type', () => {
    const [first, spot] = ofKind(EXAMPLE.objects('Fleet-chat-a1'), 'Deployment').map(podOf);
    expect(spot!.spec).toMatchObject({
      nodeSelector: { 'karpenter.sh/nodepool': 'stator-chat-a1-1-spot' },
      tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' }],
    });
    // Two pods on a node with 48 cores and 384 GiB.
    expect(first!.spec.containers[0]).toMatchObject({
      resources: { requests: { cpu: '18000m', memory: '144Gi' }, limits: { memory: '144Gi', 'nvidia.com/gpu': 2 } },
    });
    expect(first!.metadata.annotations).toEqual({ 'karpenter.sh/do-not-disrupt': 'true' });
  });

  it('fills a node before it starts one in the next zone', () => {
    const [first] = ofKind(EXAMPLE.objects('Fleet-chat-a1'), 'Deployment').map(podOf);
    const zone = { topologyKey: 'topology.kubernetes.io/zone', whenUnsatisfiable: 'ScheduleAnyway' };
    expect(first!.spec).toMatchObject({ topologySpreadConstraints: [{ ...zone, maxSkew: 2 }] });
  });

  it('starts workers that find the deployment, and tell the planner which pod they are', () => {
    const pod = podOf(ofKind(EXAMPLE.objects('Fleet-chat-a1'), 'Deployment')[1]!);
    expect(environmentOf(pod)).toMatchObject({
      POD_NAME: { fieldRef: { fieldPath: 'metadata.name' } },
      AWS_REGION: '<stator:AWS_REGION>',
      DYN_DISCOVERY_BACKEND: 'dynamodb',
      STATOR_DISCOVERY_TABLE: '<stator:STATOR_DISCOVERY_TABLE>',
      NATS_SERVER: expect.stringContaining('nats://nats-0.stator.internal:4222'),
      STATOR_NATS_SECRET: '<stator:STATOR_NATS_SECRET>',
      STATOR_PLANE_TOKEN_SECRET: '<stator:STATOR_PLANE_TOKEN_SECRET>',
      DYN_NAMESPACE_WORKER_SUFFIX: 'a1',
      STATOR_ENGINE_START_TIMEOUT_SECS: '960',
      STATOR_HOST_FACTS: '{"instance_id":"$(POD_NAME)","zone":"$(POD_ZONE)","market":"spot","group":"chat-a1-1-spot"}',
    });
    const [first, second] = pod.spec.containers[0].env;
    expect([first?.name, second?.name]).toEqual(['POD_NAME', 'POD_ZONE']); // later variables may name them
    expect(pod.spec.containers[0].args).toEqual([
      'worker',
      '--engine=vllm',
      '--model=s3://my-models/qwen3-32b/9216db5/',
      '--served-model-name=Qwen/Qwen3-32B',
      '--tensor-parallel-size=2',
      '--load-format=runai_streamer',
      '--',
      '--max-model-len',
      '32768',
    ]);
  });

  it('state the type of their node if they have it for themselves and the option has one type', () => {
    const typesOf = (gpusPerReplica: number) =>
      ofKind(chat({ engine: { ...CHAT.engine, gpusPerReplica } }), 'Deployment').map((deployment) => {
        const { STATOR_HOST_FACTS: facts } = environmentOf(podOf(deployment));
        return (JSON.parse(String(facts)) as Record<string, string>).instance_type;
      });
    expect(typesOf(4)).toEqual(['g6e.12xlarge', undefined]);
    expect(typesOf(2)).toEqual([undefined, undefined]);
  });

  it('takes further settings of the workers, and refuses those that do not go together', () => {
    const pod = podOf(pick(chat({ environment: { DYN_TOOL_CALL_PARSER: 'hermes' } }), 'Deployment'));
    expect(environmentOf(pod)).toMatchObject({ DYN_TOOL_CALL_PARSER: 'hermes' });
    const pools = { prefill: { ...CHAT, pool: 'prefill' as const }, decode: { ...CHAT, pool: 'decode' as const } };
    expect(() => productionStacks(openApp(), { ...OURS, models: EKS_MODELS, fleets: pools })).toThrow(
      'fleets.prefill: --kv-transfer-config is required for a prefill worker',
    );
  });

  it('has groups of pods if a replica spans several nodes, of which only the first one serves', () => {
    const set = pick(EXAMPLE.objects('Fleet-large'), 'LeaderWorkerSet');
    expect(set).toMatchObject({
      apiVersion: 'leaderworkerset.x-k8s.io/v1',
      metadata: { name: 'large-0-on-demand', namespace: 'stator' },
      spec: {
        startupPolicy: 'LeaderCreated',
        rolloutStrategy: { rollingUpdateConfiguration: { maxUnavailable: 0, maxSurge: 1 } },
        leaderWorkerTemplate: { size: 2, restartPolicy: 'RecreateGroupOnPodRestart' },
      },
    });
    expect(set.spec).not.toHaveProperty('replicas');
    const { leaderTemplate, workerTemplate } = set.spec.leaderWorkerTemplate as Record<string, Pod>;
    const argsOf = (pod: Pod | undefined) => pod!.spec.containers[0].args;
    expect(argsOf(leaderTemplate).slice(-5)).toEqual([
      '--load-format=runai_streamer',
      '--nnodes=$(LWS_GROUP_SIZE)',
      '--node-rank=$(LWS_WORKER_INDEX)',
      '--master-addr=$(LWS_LEADER_ADDRESS)',
      '--distributed-executor-backend=mp',
    ]);
    expect(argsOf(leaderTemplate)).toContain('--tensor-parallel-size=16');
    expect(argsOf(workerTemplate)).toEqual([...argsOf(leaderTemplate), '--headless']);
    expect(leaderTemplate!.spec.containers[0]).toMatchObject({ resources: { limits: { 'nvidia.com/gpu': 8 } } });
    expect(pick(EXAMPLE.objects('Fleet-large'), 'NodePool').spec).toMatchObject({
      limits: { 'nvidia.com/gpu': '48' }, // two replicas and one more, of 16 GPUs each
    });
  });

  it('gives the planner exactly the rights that its connector uses', () => {
    const rulesOf = (stack: string) => pick(EXAMPLE.objects(stack), 'Role').rules;
    const pods = { apiGroups: [''], resources: ['pods'], verbs: ['list', 'patch'] };
    expect(rulesOf('Fleet-chat-a1')).toEqual([
      {
        apiGroups: ['apps'],
        resources: ['deployments/scale'],
        resourceNames: ['chat-a1-0-on-demand', 'chat-a1-1-spot'],
        verbs: ['get', 'update'],
      },
      pods,
    ]);
    expect(rulesOf('Fleet-large')).toEqual([
      {
        apiGroups: ['leaderworkerset.x-k8s.io'],
        resources: ['leaderworkersets/scale'],
        resourceNames: ['large-0-on-demand'],
        verbs: ['get', 'update'],
      },
      { ...pods, verbs: ['list'] },
    ]);
    expect(pick(EXAMPLE.objects('Fleet-large'), 'RoleBinding')).toMatchObject({
      roleRef: { kind: 'Role', name: 'stator-large-planner' },
      subjects: [{ kind: 'Group', name: 'stator-planner-Stator' }],
    });
  });

  it('is the same in a cluster of yours, except for the nodes that Karpenter starts', () => {
    const yours = deployEks(YOURS).objects('Fleet-chat-a1');
    expect(yours).toEqual(EXAMPLE.objects('Fleet-chat-a1'));
    const cluster = { ...(YOURS.eks?.cluster as object), nodes: 'karpenter', nodeRole: 'Nodes' };
    const karpenter = deployEks({ ...YOURS, eks: { cluster } } as StatorConfig).objects('Fleet-chat-a1');
    const [pool] = ofKind(karpenter, 'NodePool');
    expect(pool!.spec).toMatchObject({
      template: { spec: { nodeClassRef: { group: 'karpenter.k8s.aws', kind: 'EC2NodeClass' } } },
    });
    const others = (objects: readonly KubeDocument[]) => objects.filter(({ kind }) => kind !== 'NodePool');
    expect(others(karpenter)).toEqual(others(yours));
  });
});

describe('an option with reserved nodes', { timeout: 120_000 }, () => {
  const reserved = {
    types: ['g6e.12xlarge'],
    market: 'reservation' as const,
    reservationId: 'cr-0123456789abcdef0',
    max: 4,
  };
  const block = {
    types: ['p5.48xlarge'],
    market: 'capacity-block' as const,
    reservationId: 'cr-0fedcba9876543210',
    endsAt: '2027-01-31T11:30:00Z',
    max: 1,
  };
  const config: StatorConfig = {
    ...OURS,
    models: EKS_MODELS,
    fleets: {
      chat: { ...CHAT, options: [reserved, { types: ['g6e.12xlarge'], max: 4 }, block], replicas: { max: 9 } },
    },
  };
  const deployed = deployEks(config);
  const objects = deployed.objects('Fleet-chat-a1');

  it('starts nodes only in its reservation, of which it has a class of its own', () => {
    const classes = deployed.objects('Eks').filter(({ kind }) => kind === 'NodeClass');
    expect(classes.map(({ metadata: { name }, spec }) => [name, spec.capacityReservationSelectorTerms])).toEqual([
      ['stator-gpu', undefined],
      ['stator-chat-a1-0-on-demand', [{ id: 'cr-0123456789abcdef0' }]],
      ['stator-chat-a1-2-capacity-block', [{ id: 'cr-0fedcba9876543210' }]],
    ]);
    const capacityOf = ({ spec }: KubeDocument) => {
      const { nodeClassRef, requirements } = (spec.template as { spec: Record<string, unknown> }).spec;
      const found = (requirements as { key: string; values: string[] }[]).find(
        ({ key }) => key === 'karpenter.sh/capacity-type',
      );
      return [(nodeClassRef as { name: string }).name, found?.values];
    };
    expect(ofKind(objects, 'NodePool').map(capacityOf)).toEqual([
      ['stator-chat-a1-0-on-demand', ['reserved']],
      ['stator-gpu', ['on-demand']],
      ['stator-chat-a1-2-capacity-block', ['reserved']],
    ]);
  });

  it('shares no object of the cluster with another deployment in it', () => {
    const placesOf = (name: string): readonly string[] => {
      const eks = { ...YOURS.eks, namespace: name.toLowerCase() } as NonNullable<StatorConfig['eks']>;
      const made = deployEks({ ...config, ...YOURS, models: EKS_MODELS, fleets: config.fleets, name, eks });
      const all = ['Eks', 'Fleet-chat-a1'].flatMap((stack) => made.objects(stack));
      return all.map(({ kind, metadata }) => [kind, metadata.namespace, metadata.name].join(' '));
    };
    const others = placesOf('Staging');
    expect(others).toContain('NodePool  staging-chat-a1-0-on-demand');
    expect(placesOf('Live').filter((place) => others.includes(place))).toEqual([]);
  });

  it('has no node for one more pod, so that an update ends one first', () => {
    const [first, second] = ofKind(objects, 'Deployment');
    const rollout = (rollingUpdate: object) => ({ strategy: { type: 'RollingUpdate', rollingUpdate } });
    expect(first!.spec).toMatchObject(rollout({ maxUnavailable: 1, maxSurge: 0 }));
    expect(second!.spec).toMatchObject(rollout({ maxUnavailable: 0, maxSurge: 1 }));
    const [pool] = ofKind(objects, 'NodePool');
    expect(pool!.spec).toMatchObject({ limits: { 'nvidia.com/gpu': '8' } });
  });

  it('is one that the planner leaves before Karpenter drains its nodes, ten minutes before EC2 ends them', () => {
    const specs = podFleetsOf(readSettings(config, 'file'));
    const [fleet] = readClusterFleets(JSON.stringify(specs), 'fleets').fleets;
    expect(fleet?.pools.decode?.options).toMatchObject([
      { id: '0-on-demand', market: 'on-demand', reservation: 'cr-0123456789abcdef0' },
      { id: '1-on-demand' },
      { id: '2-capacity-block', market: 'capacity-block', endsAt: '2027-01-31T11:20:00.000Z' },
    ]);
  });

  it('warns that open reservations are used no longer, as Auto Mode has it', () => {
    const { children } = productionStacks(openApp(), config).node;
    Annotations.fromStack(children.find(({ node }) => node.id === 'Fleet-chat-a1') as never).hasWarning(
      '*',
      Match.stringLikeRegexp('^fleets.chat.options.0.reservationId: from now on'),
    );
  });
});

describe('pods that claim their GPUs', { timeout: 120_000 }, () => {
  const objects = chat({ gpuClaims: true });

  it('have a template of claims for each option, and count no GPUs as a resource', () => {
    const [template] = ofKind(objects, 'ResourceClaimTemplate');
    expect(template).toMatchObject({
      apiVersion: 'resource.k8s.io/v1',
      metadata: { name: 'chat-a1-0-on-demand-gpus-2', namespace: 'stator' },
      spec: {
        spec: { devices: { requests: [{ exactly: { deviceClassName: 'gpu.nvidia.com', count: 2 } }] } },
      },
    });
    const pod = podOf(pick(objects, 'Deployment'));
    expect(pod.spec).toMatchObject({
      resourceClaims: [{ name: 'gpus', resourceClaimTemplateName: 'chat-a1-0-on-demand-gpus-2' }],
    });
    expect((pod.spec.containers[0] as unknown as { resources: object }).resources).toEqual({
      requests: { cpu: '18000m', memory: '144Gi' },
      limits: { memory: '144Gi' },
      claims: [{ name: 'gpus' }],
    });
  });

  it('get nodes up to a number of cores, because such nodes do not count their GPUs', () => {
    expect(ofKind(objects, 'NodePool').map(({ spec }) => spec.limits)).toEqual([{ cpu: '240' }, { cpu: '864' }]);
  });
});

describe('pods with EFA', { timeout: 120_000 }, () => {
  const options = [{ types: ['p5.48xlarge'], zones: ['eu-west-1a'], max: 2 }];
  const engine = { ...CHAT.engine, gpusPerReplica: 16 };
  const deployed = deployEks({
    ...OURS,
    models: EKS_MODELS,
    fleets: { chat: { ...CHAT, engine, options, replicas: { max: 2 }, efa: true } },
  });

  it('get all interfaces of their node, and no huge pages, for which no node would start', () => {
    const set = pick(deployed.objects('Fleet-chat-a1'), 'LeaderWorkerSet');
    const templates = set.spec.leaderWorkerTemplate as Record<'leaderTemplate' | 'workerTemplate', Pod>;
    for (const pod of [templates.leaderTemplate, templates.workerTemplate]) {
      expect(pod.spec.containers[0]).toMatchObject({ resources: { limits: { 'vpc.amazonaws.com/efa': 32 } } });
      expect(JSON.stringify(pod)).not.toContain('hugepages');
      expect(environmentOf(pod)).toMatchObject({ FI_EFA_USE_HUGE_PAGE: '0' });
    }
  });

  it('share the interfaces of a node', () => {
    const shared = chat({ efa: true, options: [{ types: ['g6e.48xlarge'], zones: ['eu-west-1a'], max: 24 }] });
    expect(podOf(pick(shared, 'Deployment')).spec.containers[0]).toMatchObject({
      resources: { limits: { 'nvidia.com/gpu': 2, 'vpc.amazonaws.com/efa': 1 } },
    });
  });

  it('are in a security group whose members reach each other, in both directions', () => {
    const { Data: data } = deployed.templates;
    for (const [type, other] of [
      ['AWS::EC2::SecurityGroupIngress', 'SourceSecurityGroupId'],
      ['AWS::EC2::SecurityGroupEgress', 'DestinationSecurityGroupId'],
    ] as const) {
      const rules = Object.values(data!.findResources(type)).map(({ Properties }) => Properties);
      const own = rules.filter(({ GroupId, IpProtocol, ...rest }) => {
        return IpProtocol === '-1' && JSON.stringify(rest[other]) === JSON.stringify(GroupId);
      });
      expect(own, type).toHaveLength(1);
    }
  });
});

describe('pods that copy their weights', { timeout: 120_000 }, () => {
  const weights = { uri: 's3://my-models/qwen3-32b/9216db5/', mode: 'disk' as const, bytes: 66e9 };
  const pod = podOf(pick(chat({ weights }), 'Deployment'));

  it('do so before their worker starts, and load them from there', () => {
    const { initContainers } = pod.spec as unknown as { initContainers: readonly object[] };
    expect(initContainers).toMatchObject([
      {
        name: 'weights',
        image: CHAT.engine.image,
        args: ['artifacts', 'fetch', weights.uri, '/models/weights'],
        env: [
          { name: 'AWS_REGION', value: '<stator:AWS_REGION>' },
          { name: 'HOME', value: '/tmp' },
        ],
        securityContext: { readOnlyRootFilesystem: true, allowPrivilegeEscalation: false },
        volumeMounts: [{ mountPath: '/tmp' }, { name: 'models', mountPath: '/models' }],
      },
    ]);
    const { args } = pod.spec.containers[0];
    expect(args).toContain('--model=/models/weights');
    expect(args.join()).not.toContain('runai_streamer');
    expect(pod.spec).toMatchObject({
      volumes: expect.arrayContaining([{ name: 'models', emptyDir: { sizeLimit: '95Gi' } }]),
    });
  });

  it('have the instance store of nodes that Karpenter starts, if that is large enough', () => {
    const cluster = { ...CLUSTER, nodes: 'karpenter' as const, nodeRole: 'Nodes' };
    const options = [
      { types: ['g6e.12xlarge'], max: 2 },
      { types: ['g6e.xlarge'], max: 2 },
    ];
    const engine = { ...CHAT.engine, gpusPerReplica: 1 };
    const fleet = { ...CHAT, weights: { ...weights, bytes: 1e9 }, options, engine, replicas: { max: 4 } };
    const deployed = deployEks({
      ...YOURS,
      models: EKS_MODELS,
      eks: { cluster },
      fleets: { chat: fleet },
    });
    const classes = deployed.objects('Eks').filter(({ kind }) => kind === 'EC2NodeClass');
    expect(classes.map(({ metadata: { name }, spec }) => [name, spec.instanceStorePolicy])).toEqual([
      ['stator-gpu', undefined],
      ['stator-chat-a1-0-on-demand', 'RAID0'],
    ]);
  });
});

describe('the role of the pods', { timeout: 120_000 }, () => {
  const { templates } = EXAMPLE;
  const actionsOf = (stack: string) =>
    statementsOf(templates[stack]!, /^WorkersRole/).flatMap(({ Action }) => [Action].flat());

  it('is for the service account of the fleet in its cluster only', () => {
    templates['Fleet-chat-a1']!.hasResourceProperties('AWS::EKS::PodIdentityAssociation', {
      ClusterName: 'Stator',
      Namespace: 'stator',
      ServiceAccount: 'stator-chat-a1',
      RoleArn: { 'Fn::GetAtt': [Match.stringLikeRegexp('^WorkersRole'), 'Arn'] },
    });
    expect(pick(EXAMPLE.objects('Fleet-chat-a1'), 'ServiceAccount')).toMatchObject({
      metadata: { name: 'stator-chat-a1' },
      automountServiceAccountToken: false,
    });
    const trusted = Object.values(templates['Fleet-chat-a1']!.findResources('AWS::IAM::Role')).map(
      ({ Properties }) => Properties.AssumeRolePolicyDocument.Statement as object[],
    );
    expect(trusted).toEqual([
      [
        {
          Effect: 'Allow',
          Action: ['sts:AssumeRole', 'sts:TagSession'],
          Principal: { Service: 'pods.eks.amazonaws.com' },
          Condition: {
            StringEquals: {
              'aws:RequestTag/eks-cluster-arn': { 'Fn::Join': ['', expect.arrayContaining([':cluster/Stator'])] },
              'aws:RequestTag/kubernetes-namespace': 'stator',
              'aws:RequestTag/kubernetes-service-account': 'stator-chat-a1',
            },
          },
        },
      ],
    ]);
  });

  it('has the rights that a worker and its engine need', () => {
    expect(actionsOf('Fleet-chat-a1').sort()).toEqual([
      'dynamodb:BatchGetItem',
      'dynamodb:DeleteItem',
      'dynamodb:GetItem',
      'dynamodb:Query',
      'dynamodb:UpdateItem',
      's3:GetObject',
      's3:ListBucket',
      'secretsmanager:GetSecretValue',
    ]);
    expect(statementsOf(templates['Fleet-chat-a1']!).filter(({ Resource: of }) => of === '*')).toEqual([]);
  });

  it('reads only the folder of its weights', () => {
    const statements = statementsOf(templates['Fleet-large']!, /^WorkersRole/).filter(({ Action }) =>
      String(Action).startsWith('s3:'),
    );
    expect(statements.map(({ Resource: of }) => JSON.stringify(of).match(/(?<=:s3:::)[^"]+/g))).toEqual([
      ['my-models/deepseek-v3.1/c0b8a1e/*'],
      ['my-models'],
    ]);
    expect(statements[1]).toMatchObject({
      Condition: { StringLike: { 's3:prefix': ['deepseek-v3.1/c0b8a1e/*'] } },
    });
  });
});

describe('the fleets on EKS that a planner gets', { timeout: 120_000 }, () => {
  const specs = podFleetsOf(readSettings(OURS, 'file'));

  it('are those that a planner reads, with the settings that its law takes', () => {
    const { fleets } = readClusterFleets(JSON.stringify(specs), 'STATOR_PLANNER_FLEETS');
    expect(fleets.map(({ namespace, model }) => [namespace, model])).toEqual([
      ['dynamo-a1', 'Qwen/Qwen3-32B'],
      ['dynamo', 'deepseek-ai/DeepSeek-V3.1'],
    ]);
    for (const { planner } of fleets) expect(() => parsePlannerConfig(planner ?? {})).not.toThrow();
  });

  it('name the workloads of the manifests, and the cluster whose address the planner asks for', () => {
    expect(specs.fleets).toMatchObject([
      {
        cluster: { kind: 'eks', namespace: 'stator', name: 'Stator' },
        pools: {
          decode: {
            options: [
              { id: '0-on-demand', workload: 'Deployment/chat-a1-0-on-demand', market: 'on-demand', min: 0, max: 8 },
              { id: '1-spot', workload: 'Deployment/chat-a1-1-spot', market: 'spot', max: 16 },
            ],
            ...{ gpusPerReplica: 2, startSecs: 480, drainSecs: 300, unschedulableSecs: 300 },
          },
        },
        planner: { mode: 'agg', min_endpoint: 0, start_at_zero: true, max_gpu_budget: 48, rate_requests_per_second: 2 },
      },
      {
        pools: {
          // Nodes of a fleet that starts slowly may take longer than five minutes.
          decode: {
            options: [{ workload: 'LeaderWorkerSet/large-0-on-demand' }],
            ...{ gpusPerReplica: 16, startSecs: 1200, unschedulableSecs: 600 },
          },
        },
      },
    ]);
    const [yours] = podFleetsOf(readSettings(YOURS, 'file')).fleets;
    expect(yours?.cluster).toMatchObject({ name: 'gpus' });
  });

  it('are an output of the edge, and models whose first request waits', () => {
    const { Edge: edge } = productionTemplates(OURS);
    const { PlannerFleets: output } = edge!.findOutputs('PlannerFleets');
    expect(JSON.parse(output?.Value as string)).toEqual(specs);
    expect(JSON.stringify(edge!.toJSON())).toContain('dynamo-a1#Qwen/Qwen3-32B,dynamo#deepseek-ai/DeepSeek-V3.1');
  });
});

it('warns of an image that a tag names', { timeout: 120_000 }, () => {
  const engine = { ...CHAT.engine, image: 'registry.example/worker:1' };
  const { children } = productionStacks(openApp(), {
    ...OURS,
    models: EKS_MODELS,
    fleets: { chat: { ...CHAT, engine } },
  }).node;
  Annotations.fromStack(children.find(({ node }) => node.id === 'Fleet-chat-a1') as never).hasWarning(
    '*',
    Match.stringLikeRegexp('^fleets.chat.engine.image: registry.example/worker:1: a tag'),
  );
});
