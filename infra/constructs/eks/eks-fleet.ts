import { Annotations, Aws } from 'aws-cdk-lib';
import type { IGrantable, IPrincipal } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import {
  type EksFleetSettings,
  type GivenTypes,
  nodesOf,
  optionIdOf,
  type PodOption,
  placeOf,
  replicasMinOf,
  typeOf,
  warningsOfEksFleet,
  workloadNamesOf,
} from '../../settings/index.ts';
import { completeEnvironment } from '../given-environment.ts';
import { argumentsOf } from '../worker-arguments.ts';
import type { EksCluster } from './eks-cluster.ts';
import { ManifestFile } from './manifest-file.ts';
import { ManifestValues } from './manifest-values.ts';
import { nodePool } from './nodes.ts';
import { type KubeObject, podLabels } from './objects.ts';
import { plannerAccess } from './planner-access.ts';
import { createPodRole } from './pod-role.ts';
import { podEnvironment } from './worker-pod.ts';
import { disruptionBudget, type WorkloadProps, workload } from './workload.ts';

export interface EksFleetProps {
  /** Name of the deployment. */
  readonly deployment: string;
  /** Name of the fleet in the settings. */
  readonly fleetName: string;
  readonly fleet: EksFleetSettings;
  readonly types: GivenTypes;
  readonly cluster: EksCluster;
  /** GiB of the disk of a node. */
  readonly diskGib: number;
  /** Variables that name the tables, NATS and secrets of the deployment. */
  readonly environment: Readonly<Record<string, string>>;
}

/** Key of the facts about the options in the template of a fleet: `stator deploy` reads them. */
const OPTION_FACTS = 'stator:options';

/**
 * Workers with GPUs in pods of a cluster: a workload with a node pool for each way to get nodes. A planner sets the
 * number of pods, and the cluster starts and ends nodes for them.
 *
 *     planner ──> workload 0-on-demand ──> pod, pod ──> node pool 0-on-demand
 *            └──> workload 1-spot      ──> pod      ──> node pool 1-spot
 */
export class EksFleet extends Construct implements IGrantable {
  /** Role of the pods. */
  readonly grantPrincipal: IPrincipal;

  constructor(scope: Construct, id: string, props: EksFleetProps) {
    super(scope, id);
    const { fleet, fleetName, cluster } = props;
    const { clusterName, namespace } = cluster;
    const account = serviceAccountOf(props);
    const { role, association } = createPodRole(this, { fleet, clusterName, namespace, serviceAccount: account });
    this.grantPrincipal = role.grantPrincipal;
    const values = new ManifestValues();
    const objects = objectsOf(this, props, values);
    const file = new ManifestFile(this, 'Manifest', { objects, values, cluster: cluster.applied });
    file.node.addDependency(association); // the first pod has its role at once
    association.addMetadata(
      OPTION_FACTS,
      fleet.options.map((option, at) => factsOf(props, option, at)),
    );
    for (const { path, message } of warningsOfEksFleet(fleet)) {
      const where = `fleets.${fleetName}.${path.join('.')}`;
      Annotations.of(this).addWarningV2(`stator:${where}`, `${where}: ${message}`);
    }
  }
}

/** Returns the name of the service account of a fleet's pods. Another generation has another one. */
function serviceAccountOf({ fleetName, fleet: { generation } }: EksFleetProps): string {
  return ['stator', fleetName, ...(generation === undefined ? [] : [generation])].join('-');
}

function objectsOf(scope: Construct, props: EksFleetProps, values: ManifestValues): readonly KubeObject[] {
  const { fleet, fleetName, cluster } = props;
  const { namespace } = cluster;
  const name = serviceAccountOf(props);
  const names = workloadNamesOf(fleetName, fleet);
  const workloads = fleet.options.map((option, at) =>
    workloadOf(scope, props, values, { option, name: names[at] ?? '' }),
  );
  const ofKind = (isGroup: boolean) => workloads.filter(({ nodes }) => nodes > 1 === isGroup).map((each) => each.name);
  return [
    {
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { name, namespace },
      automountServiceAccountToken: false,
    },
    ...fleet.options.map((option, at) => poolOf(props, option, names[at] ?? '')),
    ...workloads.flatMap((each) => [workload(each), disruptionBudget(each)]),
    ...plannerAccess({ name: `${name}-planner`, namespace, deployments: ofKind(false), groups: ofKind(true) }),
  ];
}

/** Returns the node pool of an option. It has room for one more replica, which an update starts before it ends one. */
function poolOf({ fleet, types, cluster }: EksFleetProps, option: PodOption, name: string): KubeObject {
  const place = placeOf(option, fleet, types);
  return nodePool({
    name,
    starter: cluster.nodeStarter,
    nodeClass: cluster.nodeClassName,
    types: option.types,
    market: option.market,
    zones: option.zones,
    gpusMax: nodesOf(option.max + 1, place) * place.gpusPerNode,
    drainSecs: fleet.drainSecs,
  });
}

interface Named {
  readonly option: PodOption;
  readonly name: string;
}

function workloadOf(
  scope: Construct,
  props: EksFleetProps,
  values: ManifestValues,
  { option, name }: Named,
): WorkloadProps {
  const { deployment, fleetName, fleet, types, cluster, environment } = props;
  const place = placeOf(option, fleet, types);
  const ofPlace = (each: 'leader' | 'follower') => podArguments(fleet, place.nodes, each);
  const { generation } = fleet;
  const all = completeEnvironment(scope, {
    process: 'worker',
    argv: ofPlace('leader'),
    own: {
      ...environment,
      ...podEnvironment(fleet),
      AWS_REGION: Aws.REGION,
      STATOR_HOST_FACTS: JSON.stringify({ instance_id: '$(POD_NAME)', group: name, market: option.market }),
      ...(generation === undefined ? {} : { DYN_NAMESPACE_WORKER_SUFFIX: generation }),
    },
    given: fleet.environment,
    secrets: [],
    path: `fleets.${fleetName}`,
  });
  const texts = Object.entries(all).map(([key, value]): [string, string] => [key, values.placeOf(key, value)]);
  return {
    name,
    namespace: cluster.namespace,
    nodes: place.nodes,
    argumentsOf: ofPlace,
    image: fleet.engine.image,
    environment: Object.fromEntries(texts.toSorted(([one], [other]) => (one < other ? -1 : 1))),
    labels: podLabels(deployment, name),
    serviceAccount: serviceAccountOf(props),
    nodePool: name,
    gpus: place.gpusPerPod,
    perNode: place.perNode,
    isGroup: place.nodes > 1,
    diskGib: props.diskGib,
    node: smallest(option, types),
    startSecs: fleet.startSecs,
    drainSecs: fleet.drainSecs,
  };
}

function podArguments(fleet: EksFleetSettings, nodes: number, place: 'leader' | 'follower'): readonly string[] {
  const { weights } = fleet;
  const ofGroup = nodes === 1 ? [] : [...groupArguments(fleet), ...(place === 'follower' ? ['--headless'] : [])];
  return argumentsOf({
    ...fleet,
    weights: weights === undefined ? undefined : { place: weights.uri, isStreamed: true },
    arguments: [...fleet.arguments, ...ofGroup],
  });
}

/** Port on which the parts of an engine of SGLang find each other. */
const SGLANG_PORT = 20_000;

/**
 * Returns the arguments by which the parts of an engine find each other. The controller of a group tells each pod how
 * many there are, which place it has, and where the first one is.
 */
function groupArguments({ engine, arguments: given }: EksFleetSettings): readonly string[] {
  const common = ['--nnodes=$(LWS_GROUP_SIZE)', '--node-rank=$(LWS_WORKER_INDEX)'];
  if (engine.kind === 'sglang') return [...common, `--dist-init-addr=$(LWS_LEADER_ADDRESS):${SGLANG_PORT}`];
  const executor = '--distributed-executor-backend';
  const isGiven = [...given, ...engine.args].some((each) => each.startsWith(executor));
  return [...common, '--master-addr=$(LWS_LEADER_ADDRESS)', ...(isGiven ? [] : [`${executor}=mp`])];
}

/** Returns the cores and memory that every type of an option has. */
function smallest({ types: names }: PodOption, types: GivenTypes): WorkloadProps['node'] {
  const facts = names.flatMap((name) => typeOf(name, types) ?? []);
  return {
    vcpus: Math.min(...facts.map(({ vcpus }) => vcpus)),
    memoryGib: Math.min(...facts.map(({ memoryGib }) => memoryGib)),
  };
}

/** Facts that the prices and quotas of an option follow from. */
function factsOf({ fleet, fleetName, types, cluster, diskGib }: EksFleetProps, option: PodOption, at: number): object {
  const place = placeOf(option, fleet, types);
  const earlier = fleet.options.slice(0, at).reduce((sum, { max }) => sum + max, 0);
  const replicas = Math.min(option.max, Math.max(0, replicasMinOf(fleet) - earlier));
  return {
    fleet: fleetName,
    model: fleet.model,
    id: optionIdOf(option, at),
    market: option.market,
    min: nodesOf(replicas, place),
    max: nodesOf(option.max, place),
    diskGib,
    isAutoMode: cluster.nodeStarter === 'auto-mode',
    types: option.types.map((name) => {
      const { vcpus, quota, hourUsd } = typeOf(name, types) ?? {};
      return { name, vcpus, quota, ...(hourUsd === undefined ? {} : { hourUsd }) };
    }),
    ...(option.zones === undefined ? {} : { zones: option.zones }),
  };
}
