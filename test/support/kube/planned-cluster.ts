import { systemClock } from '../../../shared/clock/index.ts';
import { type KubeAccess, KubeClient } from '../../../shared/discovery/index.ts';
import { KubernetesConnector } from '../../../shared/planner/kubernetes/connector.ts';
import { WorkloadCalls } from '../../../shared/planner/kubernetes/workload-calls.ts';
import { clusterFleet, type PodLoads, podOption } from '../planner/pod-fleet.ts';
import { Rounds } from '../planner/rounds.ts';
import { readTlsFixture } from '../tls-fixtures.ts';
import type { KubeCluster } from './kube-cluster.ts';
import { addPlanner, documentedRules, type Rule } from './planner-role.ts';

export interface PlannedOptions {
  /** Options of the fleet, as its file has them. @default one, for the Deployment w0 */
  readonly options?: readonly object[];
  /** Replicas of the Deployments, by name. @default one of w0 */
  readonly deployments?: Readonly<Record<string, number>>;
  /** Spec of the pods of some Deployments, by name. @default a container with a GPU */
  readonly pods?: Readonly<Record<string, object>>;
  /** GPUs of the claims by which pods may have GPUs. @default there is no template of claims */
  readonly claimGpus?: number;
  /** Other fields of the pool. */
  readonly pool?: object;
  /** @default those of docs/planner.md */
  readonly rules?: readonly Rule[];
  readonly access?: Partial<KubeAccess>;
}

/** Makes a fleet in a namespace of its own of a real cluster, and a connector with the planner's account. */
export async function planCluster(cluster: KubeCluster, given: PlannedOptions = {}) {
  const { options = [podOption()], deployments = { w0: 1 }, pods = {}, pool, rules, access, claimGpus } = given;
  const namespace = await cluster.server.addNamespace();
  if (claimGpus !== undefined) await cluster.addClaimTemplate(namespace, claimGpus);
  const token = await addPlanner(cluster.server, namespace, rules ?? (await documentedRules()));
  const at = (workload: string) => ({ namespace, workload });
  for (const [name, replicas] of Object.entries(deployments)) {
    await cluster.addDeployment(at(name), replicas, pods[name]);
    // Pods without a GPU to be had wait for a node.
    if (replicas > 0) await cluster.untilReady(at(name), replicas);
  }
  const loads: PodLoads = new Map();
  const blocksOf = (id: string) => {
    const activeBlocks = cluster.unready.has(id) ? undefined : loads.get(id); // discovery hides the others
    return activeBlocks === undefined ? undefined : { activeBlocks, generation: undefined };
  };
  const server = new URL(`https://127.0.0.1:${cluster.server.port}`);
  const entered = { server, ca: readTlsFixture('first.crt'), credentials: async () => ({ token }), ...access };
  const calls = new WorkloadCalls(new KubeClient({ access: entered, clock: systemClock }), namespace);
  const fleet = clusterFleet(options, { unschedulableSecs: 1, ...pool }, namespace);
  const connector = new KubernetesConnector({ fleet, calls, clock: systemClock, loads: { of: blocksOf, close() {} } });
  // Pods may end as soon as they are ready.
  const begin = () => new Rounds({ connector, clock: systemClock }, { tickSeconds: 0, minInstanceSeconds: 0 });
  return {
    namespace,
    token,
    at,
    loads,
    connector,
    rounds: begin(),
    /** Begins rounds that remember no earlier ones. */
    begin,
    [Symbol.asyncDispose]: async () => {
      await connector.close();
      cluster.unready.clear();
      for (const name of Object.keys(deployments)) {
        await cluster.setReplicas(at(name), 0);
        await cluster.untilReady(at(name), 0);
      }
    },
  };
}
