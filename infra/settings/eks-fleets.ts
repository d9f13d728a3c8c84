import * as z from 'zod';
import { optionIdOf } from './ec2-fleets.ts';
import { Arguments, Environment } from './environment.ts';
import {
  EndsAt,
  Engine,
  Generation,
  Market,
  Pool,
  REPLICAS_MAX,
  Replicas,
  ReservationId,
  SECS_MAX,
  WeightBytes,
  WeightsKey,
  WeightsUri,
} from './fleet-parts.ts';
import { type GivenTypes, TypeName, typeOf } from './gpu-types.ts';
import { ModelName } from './names.ts';

const Option = z.strictObject({
  /** Types of nodes. All have the same number of GPUs, with the same memory per GPU. */
  types: z.array(TypeName).min(1).max(40),
  market: Market,
  /** Reservation, or capacity block, that its nodes use. */
  reservationId: ReservationId,
  /** Time at which a capacity block or a reservation ends, as 2027-01-31T11:30:00Z. */
  endsAt: EndsAt,
  /** Zones in which its nodes start: one, if a replica spans several nodes. @default all zones of the network */
  zones: z.array(z.string().min(1)).min(1).max(6).optional(),
  /** Most replicas of the model on these nodes. */
  max: z.int().min(1).max(REPLICAS_MAX),
});

const Weights = z.strictObject({
  /** Folder of the weights. */
  uri: WeightsUri,
  /** `stream`: the engine reads the folder. `disk`: each pod copies it to the disk of its node first. */
  mode: z.enum(['stream', 'disk']).default('stream'),
  /** Needed for `mode: 'disk'`. */
  bytes: WeightBytes.optional(),
  /** Key of KMS that encrypts the bucket. @default one of S3's own */
  keyArn: WeightsKey,
});

/** Workers with GPUs, in pods of a cluster of EKS. Each option is a workload, whose nodes start for its pods. */
export const EksFleet = z.strictObject({
  kind: z.literal('eks'),
  /** Name of a model in `models`. */
  model: ModelName,
  /** Part of a request that its workers do. */
  pool: Pool,
  /** Suffix of the namespace of its workers: another generation of the fleet may run beside this one. @default none */
  generation: Generation,
  /** `gpusPerReplica` above the GPUs of a node makes a replica of several nodes. */
  engine: Engine,
  /** Weights of the model. @default none: the image has them, or the engine downloads them */
  weights: Weights.optional(),
  /** Ways to get nodes. The first that has room is taken; the later ones make up for what it lacks. */
  options: z.array(Option).min(1).max(8),
  /** Replicas of the model, of all options together. */
  replicas: Replicas,
  /**
   * Time from a new pod to its first answer, with the start of its node. A pod that takes twice as long is given up. So
   * is one that waits for its node for half of that time, and for at least 300 s.
   */
  startSecs: z.int().min(30).max(SECS_MAX).default(600),
  /** Longest time that running answers get when their pod ends. */
  drainSecs: z.int().min(0).max(SECS_MAX).default(300),
  /** Gives pods the EFA interfaces of their node. All nodes are then in one zone. */
  efa: z.boolean().default(false),
  /**
   * Pods claim their GPUs by a ResourceClaimTemplate of the class `gpu.nvidia.com`, and do not count them as
   * `nvidia.com/gpu`.
   */
  gpuClaims: z.boolean().default(false),
  /** Further settings of the workers, by their variables. */
  environment: Environment,
  /** Further settings of the workers that have only a flag. */
  arguments: Arguments,
});

/** Settings of a fleet on EKS, with their defaults. */
export type EksFleetSettings = z.infer<typeof EksFleet>;
/** One option of such a fleet. */
export type PodOption = EksFleetSettings['options'][number];

/**
 * Returns the names of the workloads of a fleet, in the order of its options, which are those of their budgets, too.
 * Another generation has other ones.
 */
export function workloadNamesOf(name: string, { generation, options }: EksFleetSettings): readonly string[] {
  const start = [name, ...(generation === undefined ? [] : [generation])];
  return options.map((option, at) => [...start, optionIdOf(option, at)].join('-'));
}

/**
 * Returns the name of the node pool of a workload, and of its node class if it has its own. Both belong to no
 * namespace, so the name has that of the deployment: a cluster may have several.
 */
export function nodePoolNameOf(deployment: string, workload: string): string {
  return `${deployment.toLowerCase()}-${workload}`;
}

/** Place of a replica of an option on nodes. */
export interface ReplicaPlace {
  /** Nodes of a replica; more than one = each replica is a group of pods. */
  readonly nodes: number;
  /** GPUs of each of its pods. */
  readonly gpusPerPod: number;
  /** Replicas that share a node. */
  readonly perNode: number;
  /** GPUs of a node. */
  readonly gpusPerNode: number;
}

/** Returns how replicas of an option lie on its nodes. Its types have facts, and all have as many GPUs. */
export function placeOf(
  { types: [first = ''] }: Pick<PodOption, 'types'>,
  { engine }: Pick<EksFleetSettings, 'engine'>,
  types: GivenTypes,
): ReplicaPlace {
  const gpusPerNode = typeOf(first, types)?.gpus ?? 1;
  const nodes = Math.max(1, Math.ceil(engine.gpusPerReplica / gpusPerNode));
  const gpusPerPod = Math.ceil(engine.gpusPerReplica / nodes);
  return { nodes, gpusPerPod, perNode: Math.max(1, Math.floor(gpusPerNode / gpusPerPod)), gpusPerNode };
}

/** GiB of a node's disk for its system, images and other files of pods. */
const SYSTEM_GIB = 64;
/**
 * Share of a node's disk that may be in use. The kubelet evicts pods if less than 15 % are free for images, or less
 * than 10 % for pods. Both are on the same disk.
 */
const USED_SHARE_MAX = 0.85;

/** Returns the GiB of a node's disk that each of its pods has for models. `perNode` pods share the disk. */
export function modelsGibOf(diskGib: number, perNode: number): number {
  return Math.floor((diskGib * USED_SHARE_MAX - SYSTEM_GIB) / perNode);
}

/** Returns the GiB of the smallest disk on which each of its pods has `modelsGib` for models. */
export function leastDiskGib(modelsGib: number, perNode: number): number {
  return Math.ceil((modelsGib * perNode + SYSTEM_GIB) / USED_SHARE_MAX);
}

/** Whether the nodes of an option are reserved: then there are no spare ones for an update. */
export function isReserved({ market }: Pick<PodOption, 'market'>): boolean {
  return market === 'reservation' || market === 'capacity-block';
}

/** Returns the nodes that a number of replicas of an option takes. */
export function nodesOf(replicas: number, { nodes, perNode }: ReplicaPlace): number {
  return nodes > 1 ? replicas * nodes : Math.ceil(replicas / perNode);
}
