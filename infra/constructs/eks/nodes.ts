import type { KubeObject } from './objects.ts';

/** Part of a cluster that starts nodes: the Auto Mode of EKS, or Karpenter. */
export type NodeStarter = 'auto-mode' | 'karpenter';

/** Settings of nodes that are alike for all fleets. */
export interface NodeClassProps {
  readonly name: string;
  readonly starter: NodeStarter;
  /** Name of the role of the nodes. */
  readonly role: string;
  /** Ids of the subnets in which nodes start. */
  readonly subnets: readonly string[];
  /** Ids of the security groups of the nodes, and so of their pods: the cluster's and that of the workers. */
  readonly securityGroups: readonly string[];
  readonly diskGib: number;
  /** Name of the deployment, for the bill. undefined = the nodes must have no tag. */
  readonly tag: string | undefined;
}

/** Needs of the nodes of some options, by which their class differs from that of the others. */
export interface NodeNeeds {
  /** Reservation, or capacity block, in which they start. */
  readonly reservationId?: string | undefined;
  /** Whether images and volumes of pods are on the instance store. */
  readonly hasInstanceStore?: boolean;
}

/** Throughput and operations of the disks, as those of machines on EC2: images and models come at that speed. */
const DISK = { throughput: 1000, iops: 4000 } as const;

const CLASSES = {
  'auto-mode': { group: 'eks.amazonaws.com', kind: 'NodeClass' },
  karpenter: { group: 'karpenter.k8s.aws', kind: 'EC2NodeClass' },
} as const satisfies Readonly<Record<NodeStarter, { readonly group: string; readonly kind: string }>>;

/** Returns the object that says what the nodes of a class have in common. */
export function nodeClass(props: NodeClassProps, { reservationId, hasInstanceStore }: NodeNeeds = {}): KubeObject {
  const { name, starter, role, diskGib, tag } = props;
  const { group, kind } = CLASSES[starter];
  const placed = {
    role,
    subnetSelectorTerms: props.subnets.map((id) => ({ id })),
    securityGroupSelectorTerms: props.securityGroups.map((id) => ({ id })),
    ...(reservationId === undefined ? {} : { capacityReservationSelectorTerms: [{ id: reservationId }] }),
    ...(tag === undefined ? {} : { tags: { 'stator:deployment': tag } }),
  };
  const size = `${diskGib}Gi`;
  const spec =
    starter === 'auto-mode'
      ? { ...placed, ephemeralStorage: { size, ...DISK } }
      : {
          ...placed,
          amiSelectorTerms: [{ alias: 'al2023@latest' }], // the variant with the driver on types with GPUs
          metadataOptions: { httpTokens: 'required', httpPutResponseHopLimit: 1 },
          blockDeviceMappings: [
            {
              deviceName: '/dev/xvda',
              ebs: { volumeSize: size, volumeType: 'gp3', encrypted: true, deleteOnTermination: true, ...DISK },
            },
          ],
          ...(hasInstanceStore === true ? { instanceStorePolicy: 'RAID0' } : {}),
        };
  return { apiVersion: `${group}/v1`, kind, metadata: { name }, spec };
}

export interface NodePoolProps {
  /** Name, by which pods choose their nodes. */
  readonly name: string;
  readonly starter: NodeStarter;
  /** Name of the node class. */
  readonly nodeClass: string;
  readonly types: readonly string[];
  readonly capacity: 'on-demand' | 'spot' | 'reserved';
  /** @default every zone of the subnets */
  readonly zones?: readonly string[] | undefined;
  /** Amounts of resources that all nodes together may have. */
  readonly limits: Readonly<Record<string, string>>;
  /** Longest drain of a pod, in seconds. */
  readonly drainSecs: number;
}

/**
 * Age at which a node is replaced. Those of Auto Mode live for 21 days at most, with the time for their pods to end.
 */
const NODE_AGE = '480h';
/** Least time that the pods of a node get to end, in seconds. */
const NODE_END_SECS_MIN = 1200;
/** Time for the engine to stop after its drain, and for the node to see it, in seconds. */
const NODE_END_MARGIN_SECS = 300;

/** Nodes that may end at once: one of those that are replaced, and all that are empty, because they cost as before. */
const BUDGETS = [
  { reasons: ['Drifted'], nodes: '1' },
  { reasons: ['Empty'], nodes: '100%' },
] as const;

/** Taint of nodes with GPUs, which keeps all other pods away. */
export const GPU_TAINT = { key: 'nvidia.com/gpu', effect: 'NoSchedule' } as const;

/**
 * Returns the object that starts nodes for the pods of one option, and ends those that are empty. It never ends a node
 * with a pod for the sake of price.
 */
export function nodePool(props: NodePoolProps): KubeObject {
  const { group, kind } = CLASSES[props.starter];
  const among = (key: string, values: readonly string[]) => ({ key, operator: 'In', values: [...values] });
  return {
    apiVersion: 'karpenter.sh/v1',
    kind: 'NodePool',
    metadata: { name: props.name },
    spec: {
      template: {
        spec: {
          nodeClassRef: { group, kind, name: props.nodeClass },
          requirements: [
            among('node.kubernetes.io/instance-type', props.types),
            among('karpenter.sh/capacity-type', [props.capacity]),
            among('kubernetes.io/arch', ['amd64']),
            ...(props.zones === undefined ? [] : [among('topology.kubernetes.io/zone', props.zones)]),
          ],
          taints: [GPU_TAINT],
          expireAfter: NODE_AGE,
          terminationGracePeriod: `${Math.max(NODE_END_SECS_MIN, props.drainSecs + NODE_END_MARGIN_SECS)}s`,
        },
      },
      limits: props.limits,
      disruption: { consolidationPolicy: 'WhenEmpty', consolidateAfter: '5m', budgets: BUDGETS },
    },
  };
}
