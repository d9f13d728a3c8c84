import type { KubeAccess } from '../../../shared/discovery/index.ts';
import { KubeClient } from '../../../shared/discovery/index.ts';
import { type ClusterFleet, readClusterFleets } from '../../../shared/planner/kubernetes/cluster-fleet.ts';
import { KubernetesConnector } from '../../../shared/planner/kubernetes/connector.ts';
import { WorkloadCalls } from '../../../shared/planner/kubernetes/workload-calls.ts';
import { FakeApiServer } from '../kube/api-server.ts';
import { FakeWorkloads, type WorkloadsOptions } from '../kube/workloads.ts';
import { VirtualClock } from '../virtual-clock.ts';

/** Time from a pod to a worker that serves, and the time in which one ends, in the fleets of these tests. */
export const START_MS = 60_000;
export const END_MS = 30_000;

/** An option as the file of fleets has it. */
export function podOption(at = 0, option: object = {}) {
  return { id: `${at}-on-demand`, workload: `Deployment/w${at}`, market: 'on-demand', min: 0, max: 8, ...option };
}

/** Returns the file of one fleet with one pool. */
export function podFleets(options: readonly object[] = [podOption()], pool: object = {}, namespace = 'default') {
  const decode = { options, gpusPerReplica: 1, startSecs: 60, drainSecs: 30, unschedulableSecs: 60, ...pool };
  const cluster = { kind: 'kubernetes', namespace };
  return { fleets: [{ namespace: 'ns', model: 'm', cluster, pools: { decode } }] };
}

export function clusterFleet(options?: readonly object[], pool?: object, namespace?: string): ClusterFleet {
  const [fleet] = readClusterFleets(JSON.stringify(podFleets(options, pool, namespace)), 'fleets').fleets;
  if (fleet === undefined) throw new Error('the file has no fleet');
  return fleet;
}

/** Blocks in use by pod. A pod that is left out was not heard, and neither is one that is not ready. */
export type PodLoads = Map<string, number>;

export interface PodFleet extends AsyncDisposable {
  readonly api: FakeApiServer;
  readonly workloads: FakeWorkloads;
  readonly clock: VirtualClock;
  readonly loads: PodLoads;
  readonly connector: KubernetesConnector;
  /** Opens another connector of the same fleet, as the next process would. */
  open(access?: Partial<KubeAccess>): KubernetesConnector;
}

/** Starts a cluster behind a fake API server, and a connector whose real client calls it. */
export async function startPodFleet(
  fleet: ClusterFleet = clusterFleet(),
  options: Partial<WorkloadsOptions> = {},
): Promise<PodFleet> {
  const clock = new VirtualClock();
  const api = await FakeApiServer.start();
  const workloads = new FakeWorkloads(api, { clock, startMs: START_MS, endMs: END_MS, ...options });
  const loads: PodLoads = new Map();
  const opened: KubernetesConnector[] = [];
  const blocksOf = (id: string) => {
    const activeBlocks = workloads.isReady(id) ? loads.get(id) : undefined; // discovery hides the others
    return activeBlocks === undefined ? undefined : { activeBlocks, generation: undefined };
  };
  const server = new URL(`http://127.0.0.1:${api.port}`);
  const open = (access: Partial<KubeAccess> = {}): KubernetesConnector => {
    const entered = { server, credentials: async () => ({ token: 'token' }), ...access };
    const calls = new WorkloadCalls(new KubeClient({ access: entered, clock }), fleet.cluster.namespace);
    const connector = new KubernetesConnector({ fleet, calls, clock, loads: { of: blocksOf, close() {} } });
    opened.push(connector);
    return connector;
  };
  return {
    api,
    workloads,
    clock,
    loads,
    connector: open(),
    open,
    [Symbol.asyncDispose]: async () => {
      await Promise.all(opened.map((connector) => connector.close()));
      await api.close();
    },
  };
}
