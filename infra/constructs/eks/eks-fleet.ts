import { Annotations, Aws } from 'aws-cdk-lib';
import type { IGrantable, IPrincipal } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import {
  type EksFleetSettings,
  type GivenTypes,
  isReserved,
  marketOf,
  nodePoolNameOf,
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
import type { EksCluster } from './eks-cluster.ts';
import { ManifestFile } from './manifest-file.ts';
import { ManifestValues } from './manifest-values.ts';
import { needsOf } from './node-classes.ts';
import { nodePool } from './nodes.ts';
import { type KubeObject, podLabels } from './objects.ts';
import { plannerAccess, plannerGroupOf } from './planner-access.ts';
import { podArguments } from './pod-arguments.ts';
import { createPodRole } from './pod-role.ts';
import { podEnvironment } from './worker-pod.ts';
import { claimTemplate, claimTemplateOf, disruptionBudget, type WorkloadProps, workload } from './workload.ts';

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
    for (const { path, message } of warningsOfEksFleet(fleet, cluster.nodeStarter === 'auto-mode')) {
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
  const { deployment, fleet, fleetName, cluster } = props;
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
    ...fleet.options.map((option, at) => poolOf(props, option, nodePoolNameOf(deployment, names[at] ?? ''))),
    ...workloads.flatMap((each) => [
      ...(fleet.gpuClaims ? [claimTemplate(each)] : []),
      workload(each),
      disruptionBudget(each),
    ]),
    ...plannerAccess({
      name: `${name}-planner`,
      group: plannerGroupOf(deployment),
      namespace,
      deployments: ofKind(false),
      groups: ofKind(true),
      hasClaims: fleet.gpuClaims,
    }),
  ];
}

/** Returns the node pool of an option. It has room for one more replica, which an update starts before it ends one. */
function poolOf(props: EksFleetProps, option: PodOption, name: string): KubeObject {
  const { fleet, types, cluster, diskGib } = props;
  const starter = cluster.nodeStarter;
  const hasOwnClass = needsOf(option, fleet, { starter, diskGib, types }) !== undefined;
  return nodePool({
    name,
    starter,
    nodeClass: hasOwnClass ? name : cluster.nodeClassName,
    types: option.types,
    capacity: isReserved(option) ? 'reserved' : option.market === 'spot' ? 'spot' : 'on-demand',
    zones: option.zones,
    limits: limitsOf(props, option),
    drainSecs: fleet.drainSecs,
  });
}

/** Returns the limits of an option's nodes. A node whose GPUs are claimed does not count them as a resource. */
function limitsOf({ fleet, types }: EksFleetProps, option: PodOption): Readonly<Record<string, string>> {
  const place = placeOf(option, fleet, types);
  const nodes = nodesOf(option.max + (isReserved(option) ? 0 : 1), place);
  if (!fleet.gpuClaims) return { 'nvidia.com/gpu': String(nodes * place.gpusPerNode) };
  const vcpus = option.types.map((name) => typeOf(name, types)?.vcpus ?? 0);
  return { cpu: String(nodes * Math.max(...vcpus)) };
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
      STATOR_HOST_FACTS: JSON.stringify(hostFactsOf(name, option, place)),
      ...(fleet.efa ? { FI_EFA_USE_HUGE_PAGE: '0' } : {}), // its pods may use none
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
    nodePool: nodePoolNameOf(deployment, name),
    gpus: place.gpusPerPod,
    claimTemplate: fleet.gpuClaims ? claimTemplateOf(name, place.gpusPerPod) : undefined,
    efaInterfaces: fleet.efa ? Math.floor(efaInterfacesOf(option, types) / place.perNode) : 0,
    copied: fleet.weights?.mode === 'disk' ? fleet.weights.uri : undefined,
    hasSpare: !isReserved(option),
    perNode: place.perNode,
    isGroup: place.nodes > 1,
    diskGib: props.diskGib,
    node: smallest(option, types),
    startSecs: fleet.startSecs,
    drainSecs: fleet.drainSecs,
  };
}

/**
 * Returns what a pod tells of its machine. Kubernetes fills in its name and zone. It has no way to tell the type of the
 * node, which is known if the option has one type. A pod that shares its node, or has several, does not state it: it
 * would count as a machine of that type.
 */
function hostFactsOf(group: string, option: PodOption, { nodes, perNode }: ReturnType<typeof placeOf>) {
  const [type] = option.types;
  const hasOwnNode = nodes === 1 && perNode === 1 && option.types.length === 1;
  return {
    instance_id: '$(POD_NAME)',
    ...(hasOwnNode ? { instance_type: type } : {}),
    zone: '$(POD_ZONE)',
    market: marketOf(option),
    group,
  };
}

function efaInterfacesOf({ types: [first = ''] }: PodOption, types: GivenTypes): number {
  return typeOf(first, types)?.efaInterfaces ?? 0;
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
