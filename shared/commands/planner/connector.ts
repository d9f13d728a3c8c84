import type { Clock } from '../../clock/index.ts';
import type { Environment, Settings } from '../../config/index.ts';
import { type Discovery, KubeClient } from '../../discovery/index.ts';
import {
  AutoScalingCalls,
  accessTo,
  type ClusterFleet,
  type Connector,
  Ec2Connector,
  type FleetSpec,
  FolderKeys,
  InstanceLoads,
  KubernetesConnector,
  LocalConnector,
  type PlannerConfig,
  type ScalableWorkers,
  VirtualConnector,
  WorkloadCalls,
} from '../../planner/index.ts';
import { plannerFolder } from './planner-store.ts';

export interface ConnectorDeps {
  readonly settings: Settings<'planner'>;
  readonly env: Environment;
  readonly clock: Clock;
  /** Opens at most `workersMax` workers that join the fleet of `namespace`; with `--planner-connector local`. */
  readonly workersOf?:
    | ((fleet: { readonly namespace: string; readonly workersMax: number }) => ScalableWorkers)
    | undefined;
}

interface Scaled {
  readonly namespace: string;
  readonly config: PlannerConfig;
  /** With `--planner-connector` `ec2`, `kubernetes` or `eks`. */
  readonly fleet: FleetSpec | ClusterFleet | undefined;
}

const FOLLOW_MS_MAX = 15_000;

/**
 * Opens what carries out decisions: the groups of a fleet on EC2, the workloads of a cluster, the workers of this
 * machine if there are any, or files for another scaler.
 */
export async function openConnector(
  { settings, env, clock, workersOf }: ConnectorDeps,
  { namespace, config, fleet }: Scaled,
  discovery: Discovery,
): Promise<Connector> {
  if (fleet !== undefined && isOfPods(fleet)) return await podConnectors({ discovery, clock, env })(fleet);
  if (fleet !== undefined) {
    const calls = await AutoScalingCalls.open(clock);
    try {
      return await ec2Connectors({ discovery, calls, clock })(fleet);
    } catch (thrown) {
      await calls.close();
      throw thrown;
    }
  }
  if (workersOf !== undefined) return new LocalConnector(workersOf({ namespace, workersMax: workersMax(config) }));
  const keys = new FolderKeys(plannerFolder(settings, env), namespace);
  return new VirtualConnector({ keys, clock, waitMsMax: settings.scalingMaxWaitTimeSecs * 1000 });
}

/** Whether a fleet consists of pods. */
export function isOfPods(fleet: FleetSpec | ClusterFleet): fleet is ClusterFleet {
  return 'cluster' in fleet;
}

interface Followed {
  readonly discovery: Discovery;
  readonly clock: Clock;
}

interface PodDeps extends Followed {
  /** Variables that lead to the cluster. */
  readonly env: Environment;
}

interface Ec2Deps extends Followed {
  readonly calls: AutoScalingCalls;
}

/** Returns a function that opens connectors of fleets on EC2. They share the calls, and the loads of a namespace. */
export function ec2Connectors({ discovery, calls, clock }: Ec2Deps): (fleet: FleetSpec) => Promise<Connector> {
  const loadsOf = followedLoads(discovery);
  return async (fleet) => new Ec2Connector({ fleet, calls, clock, loads: await loadsOf(fleet.namespace) });
}

/** Returns a function that opens connectors of fleets of pods. They share the loads of a namespace. */
export function podConnectors({ discovery, clock, env }: PodDeps): (fleet: ClusterFleet) => Promise<Connector> {
  const loadsOf = followedLoads(discovery);
  return async (fleet) => {
    const access = await accessTo(fleet.cluster, env, clock);
    const loads = await loadsOf(fleet.namespace);
    const calls = new WorkloadCalls(new KubeClient({ access, clock }), fleet.cluster.namespace);
    return new KubernetesConnector({ fleet, calls, clock, loads });
  };
}

/** Returns a function that follows the loads of the workers of a namespace, once for each. */
function followedLoads(discovery: Discovery): (namespace: string) => Promise<InstanceLoads> {
  const followed = new Map<string, Promise<InstanceLoads>>(); // bounded by the fleets of the settings
  return (namespace) => {
    const loads =
      followed.get(namespace) ?? InstanceLoads.follow(discovery, namespace, AbortSignal.timeout(FOLLOW_MS_MAX));
    followed.set(namespace, loads);
    return loads;
  };
}

/** Returns how many workers may run at once. Without a budget that is at least two. */
function workersMax({ maxGpuBudget: gpusMax, decodeEngineNumGpu: gpus }: PlannerConfig): number {
  return gpusMax < 0 ? 2 : Math.floor(gpusMax / Math.max(1, gpus ?? 1));
}
