import * as z from 'zod';
import { type FleetSpec, type PoolSpec, readSpecs } from '../options/fleet-spec.ts';
import type { PerPool, Pool } from '../types.ts';
import { parseWorkload, type Workload } from './workload.ts';

const count = z.number().int().min(0).max(100_000);
const seconds = z.number().min(0).max(86_400);
const name = z.string().min(1).max(256);
const namespace = z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be the name of a namespace');

const option = z
  .strictObject({
    /** Place in the list and market: `0-on-demand`. */
    id: z.string().regex(/^\d+-(on-demand|spot|capacity-block)$/, 'must be like 0-on-demand, 1-spot, 2-capacity-block'),
    /** `Deployment/name`, or `LeaderWorkerSet/name` for an engine that needs several nodes. A replica is a worker. */
    workload: z
      .string()
      .max(300)
      .refine((text) => parseWorkload(text) !== undefined, 'must be Deployment/NAME or LeaderWorkerSet/NAME'),
    market: z.enum(['on-demand', 'spot', 'capacity-block']),
    /** Capacity reservation, or capacity block, that its nodes use, for people. */
    reservation: name.optional(),
    /** Time at which its nodes end, as an ISO time: its workers end before. */
    endsAt: z.iso.datetime({ offset: true }).optional(),
    /** Types of nodes on which its pods run, for people. @default the workload */
    types: z.array(name).min(1).max(40).optional(),
    /** Bounds of the replicas that the planner sets. */
    min: count,
    max: count,
  })
  .refine(({ min, max }) => min <= max, { path: ['min'], error: 'must not be above max' });

const pool = z
  .strictObject({
    options: z.array(option).min(1).max(16),
    gpusPerReplica: z.number().int().min(1).max(4096),
    /** Seconds from a new pod to a worker that serves, until some were measured. */
    startSecs: seconds,
    /** Longest drain of a worker: at most the grace period of its pod. */
    drainSecs: seconds,
    /** Seconds that a pod may wait for a node before its option counts as without room. @default startSecs, min. 60 */
    unschedulableSecs: seconds.optional(),
  })
  .superRefine(({ options }, context) => {
    options.forEach(({ id, workload }, at) => {
      for (const [field, value] of Object.entries({ id, workload })) {
        const isSame = (other: (typeof options)[number]): boolean => other[field as 'id' | 'workload'] === value;
        if (options.findIndex(isSame) === at) continue;
        context.addIssue({ code: 'custom', path: ['options', at, field], message: `${value} is there twice` });
      }
    });
  });

/** Whether a token can be sent to an address: not in the clear, except within this machine. */
export function isSafe(endpoint: string): boolean {
  const { protocol = '', hostname = '' } = URL.canParse(endpoint) ? new URL(endpoint) : {};
  return protocol === 'https:' || (protocol === 'http:' && (hostname === '127.0.0.1' || hostname === 'localhost'));
}

const eks = z
  .strictObject({
    kind: z.literal('eks'),
    namespace,
    name,
    /** @default `AWS_REGION` of the planner */
    region: name.optional(),
    /** Address of the API server. @default what EKS says, which needs the right `eks:DescribeCluster` */
    endpoint: z.string().max(2048).refine(isSafe, 'must be the https address of the API server').optional(),
    /** Authority of its certificate: PEM in base64, as `aws eks describe-cluster` shows it. Comes with `endpoint`. */
    certificateAuthority: z.base64().max(65_536).optional(),
  })
  .superRefine(({ endpoint, certificateAuthority }, context) => {
    if ((endpoint === undefined) === (certificateAuthority === undefined)) return;
    const [missing, given] =
      endpoint === undefined ? ['endpoint', 'certificateAuthority'] : ['certificateAuthority', 'endpoint'];
    context.addIssue({ code: 'custom', path: [missing], message: `is missing: ${given} needs it` });
  });

const cluster = z.discriminatedUnion('kind', [
  /** The cluster in which the planner runs, or that of its kubeconfig. */
  z.strictObject({ kind: z.literal('kubernetes'), namespace }),
  /** A cluster of EKS, which the planner enters with the credentials of AWS. */
  eks,
]);

const fleet = z.strictObject({
  namespace: name,
  model: name,
  cluster,
  /** Pools by name; the workers of an aggregated fleet are its `decode` pool. */
  pools: z.strictObject({ prefill: pool.optional(), decode: pool.optional() }),
  /** Settings of the law, as `--planner-config` takes them. */
  planner: z.record(z.string(), z.unknown()).optional(),
});

const fleets = z.strictObject({
  /** Most GPUs of all models together. */
  gpusMax: count.optional(),
  fleets: z.array(fleet).max(1000),
});

type ClusterPool = z.infer<typeof pool>;
/** Cluster of a fleet, and how the planner enters it. */
export type ClusterPlace = z.infer<typeof cluster>;

/** An option of a fleet of pods. */
export interface PodOption {
  readonly workload: Workload;
  /** Milliseconds that a pod may wait for a node. */
  readonly unschedulableMs: number;
  /** Milliseconds that a pod may take from its node to a worker that serves, until starts were measured. */
  readonly startMsMax: number;
  /** Longest drain of a worker in milliseconds. */
  readonly drainMs: number;
  /** Options of its pool: a failed one is tried again only when each other one may have been tried. */
  readonly optionCount: number;
}

/** Fleet of one model in a cluster: as the law of options reads it, and the workload behind each option. */
export interface ClusterFleet extends FleetSpec {
  readonly cluster: ClusterPlace;
  /** By the id of the option. */
  readonly workloads: PerPool<ReadonlyMap<string, PodOption>>;
}

const NODE_DRAIN_MS = 600_000;
const UNSCHEDULABLE_S_MIN = 60;
/** Starts of this many times the usual length have failed, if they are not shorter than a minute. */
export const START_FACTOR = 2;
const START_S_MIN = 60;

/**
 * Reads the fleets of pods out of JSON.
 * @param where name of the setting, for the message
 * @throws FleetSpecError
 */
export function readClusterFleets(text: string, where: string) {
  const read = readSpecs(fleets, text, where);
  return { gpusMax: read.gpusMax, fleets: read.fleets.map(clusterFleet) };
}

/** A replica is one worker and one instance, so an option never ends a part of a worker. */
function clusterFleet({ pools, ...rest }: z.infer<typeof fleet>): ClusterFleet {
  const specs: { -readonly [name in Pool]?: PoolSpec } = {};
  const workloads: { -readonly [name in Pool]?: ReadonlyMap<string, PodOption> } = {};
  for (const [each, given] of Object.entries(pools)) {
    if (given === undefined) continue;
    specs[each as Pool] = poolSpec(given);
    workloads[each as Pool] = podOptions(given);
  }
  return { ...rest, pools: specs, workloads };
}

function poolSpec({ options, gpusPerReplica, startSecs, drainSecs }: ClusterPool): PoolSpec {
  return {
    options: options.map(({ workload, types: shownTypes, endsAt, ...rest }) => ({
      ...rest,
      group: workload,
      // A failure of one workload says nothing of another, even if both run on nodes of the same types.
      types: [workload],
      shownTypes,
      ...(endsAt === undefined ? {} : { endsAt: drainedAt(endsAt) }),
      gpusPerInstance: gpusPerReplica,
      replicasPerInstance: 1,
    })),
    gpusPerReplica,
    startSecs,
    drainSecs,
  };
}

/** Returns the end of nodes as a planner counts it: Karpenter begins to drain them ten minutes before EC2 ends them. */
function drainedAt(endsAt: string): string {
  return new Date(Date.parse(endsAt) - NODE_DRAIN_MS).toISOString();
}

function podOptions({ options, startSecs, drainSecs, unschedulableSecs }: ClusterPool): ReadonlyMap<string, PodOption> {
  const unschedulableMs = 1000 * (unschedulableSecs ?? Math.max(UNSCHEDULABLE_S_MIN, startSecs));
  const drainMs = 1000 * drainSecs;
  const startMsMax = 1000 * Math.max(START_S_MIN, START_FACTOR * startSecs);
  const times = { unschedulableMs, startMsMax, drainMs };
  return new Map(
    options.flatMap(({ id, workload: text }) => {
      const workload = parseWorkload(text);
      return workload === undefined ? [] : [[id, { workload, ...times, optionCount: options.length }] as const];
    }),
  );
}
