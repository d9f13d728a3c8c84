import { asRecord, type UnknownRecord } from '../../../shared/records/index.ts';
import { freePort } from '../free-port.ts';
import { type SpawnedProcess, spawnProgram } from '../spawn-node.ts';
import { waitUntil } from '../wait-until.ts';
import { hasKubeServer, KubeServer } from './kube-server.ts';

/** Whether `npm run test:kubernetes` has built controllers and a scheduler, too. */
export function hasKubeCluster(): boolean {
  return hasKubeServer() && Boolean(process.env.STATOR_TEST_KUBE_CONTROLLERS);
}

/** Controllers that a planner's workloads need, and those of disruption budgets and resource claims. */
const CONTROLLERS = [
  ...['deployment-controller', 'replicaset-controller', 'disruption-controller'],
  ...['resourceclaim-controller', 'garbage-collector-controller', 'statefulset-controller'],
].join();
const GPU_CLASS = 'gpu.nvidia.com';
/** Spec of a pod that claims GPUs by the template of `addClaimTemplate`. */
export const CLAIMING = {
  containers: [{ name: 'main', image: 'none', resources: { claims: [{ name: 'gpus' }] } }],
  resourceClaims: [{ name: 'gpus', resourceClaimTemplateName: 'gpus' }],
};
const STRATEGIC = 'application/strategic-merge-patch+json';
const MERGE = 'application/merge-patch+json';

/** A pod, as tests look at one. */
export interface LivePod {
  readonly name: string;
  readonly uid: string;
  readonly hasNode: boolean;
  readonly isReady: boolean;
  readonly isEnding: boolean;
}

interface PodChoice {
  readonly namespace: string;
  /** Deployment of the pods. */
  readonly workload: string;
}

/**
 * A real API server with the real controllers of Deployments and the real scheduler. No kubelet runs: `act` plays what
 * kubelets do, so that a test decides which pods are ready. Pods end at once.
 */
export class KubeCluster {
  readonly server: KubeServer;
  readonly #processes: readonly SpawnedProcess[];
  /** Names of pods that must not be ready. */
  readonly unready = new Set<string>();

  private constructor(server: KubeServer, processes: readonly SpawnedProcess[]) {
    this.server = server;
    this.#processes = processes;
  }

  static async start(): Promise<KubeCluster> {
    const binary = process.env.STATOR_TEST_KUBE_CONTROLLERS;
    if (!binary) throw new Error('STATOR_TEST_KUBE_CONTROLLERS is not set: run npm run test:kubernetes');
    const server = await KubeServer.start();
    const kubeconfig = await server.writeKubeconfig();
    const start = async (part: string, ...more: string[]): Promise<SpawnedProcess> =>
      spawnProgram(binary, [
        ...[part, '--kubeconfig', kubeconfig, '--leader-elect=false', '--bind-address', '127.0.0.1'],
        ...['--secure-port', String(await freePort()), '--kube-api-qps', '500', '--kube-api-burst', '1000', ...more],
      ]);
    const processes = [await start('controller-manager', '--controllers', CONTROLLERS), await start('scheduler')];
    return new KubeCluster(server, processes);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#processes.map((each) => each.kill()));
    await this.server.stop();
  }

  /** Adds a node with GPUs of a device plugin. */
  async addNode(name: string, gpus: number): Promise<void> {
    const capacity = { cpu: '64', memory: '256Gi', pods: '110', 'nvidia.com/gpu': String(gpus) };
    const conditions = [{ type: 'Ready', status: 'True' }];
    await this.server.call('POST', '/api/v1/nodes', {
      metadata: { name },
      status: { capacity, allocatable: capacity, conditions },
    });
  }

  /** Adds GPUs of a DRA driver to a node, and their class. */
  async addDevices(nodeName: string, gpus: number): Promise<void> {
    const resources = '/apis/resource.k8s.io/v1';
    const selectors = [{ cel: { expression: `device.driver == '${GPU_CLASS}'` } }];
    await this.server.call('POST', `${resources}/deviceclasses`, {
      metadata: { name: GPU_CLASS },
      spec: { selectors },
    });
    const devices = Array.from({ length: gpus }, (_, at) => ({ name: `gpu-${at}` }));
    const pool = { name: nodeName, generation: 1, resourceSliceCount: 1 };
    const spec = { driver: GPU_CLASS, pool, nodeName, devices };
    await this.server.call('POST', `${resources}/resourceslices`, { metadata: { name: nodeName }, spec });
  }

  /** Adds a template of claims of GPUs to a namespace. */
  async addClaimTemplate(namespace: string, count: number): Promise<void> {
    const requests = [{ name: 'gpus', exactly: { deviceClassName: GPU_CLASS, allocationMode: 'ExactCount', count } }];
    const path = `/apis/resource.k8s.io/v1/namespaces/${namespace}/resourceclaimtemplates`;
    await this.server.call('POST', path, { metadata: { name: 'gpus' }, spec: { spec: { devices: { requests } } } });
  }

  /** Adds a Deployment whose pods need a GPU. @param pod other fields of its pods */
  async addDeployment({ namespace, workload }: PodChoice, replicas: number, pod?: object): Promise<void> {
    const labels = { app: workload };
    const container = { name: 'main', image: 'none', resources: { limits: { 'nvidia.com/gpu': 1 } } };
    const spec = pod ?? { containers: [container] };
    await this.server.call('POST', `/apis/apps/v1/namespaces/${namespace}/deployments`, {
      metadata: { name: workload },
      spec: { replicas, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
    });
  }

  /** Adds the kind LeaderWorkerSet. Without its controller, no pods come. */
  async addGroupKind(): Promise<void> {
    const group = 'leaderworkerset.x-k8s.io';
    const replicas = { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' };
    const scale = { ...replicas, labelSelectorPath: '.status.hpaPodSelector' };
    const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
    const version = { name: 'v1', served: true, storage: true, schema, subresources: { status: {}, scale } };
    const names = { plural: 'leaderworkersets', singular: 'leaderworkerset', kind: 'LeaderWorkerSet' };
    await this.server.call('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', {
      metadata: { name: `leaderworkersets.${group}` },
      spec: { group, scope: 'Namespaced', names, versions: [version] },
    });
  }

  /** Adds a LeaderWorkerSet with groups of two pods without GPUs, once the server knows its kind. */
  async addGroups({ namespace, workload: name }: PodChoice, replicas: number): Promise<void> {
    const kind = { apiVersion: 'leaderworkerset.x-k8s.io/v1', kind: 'LeaderWorkerSet' };
    const path = `/apis/leaderworkerset.x-k8s.io/v1/namespaces/${namespace}/leaderworkersets`;
    const containers = [{ name: 'main', image: 'none' }];
    const workerTemplate = { metadata: { labels: { app: name } }, spec: { containers } };
    const spec = { replicas, leaderWorkerTemplate: { size: 2, workerTemplate } };
    const add = () => this.server.call('POST', path, { ...kind, metadata: { name }, spec });
    await waitUntil(add, { what: 'the kind LeaderWorkerSet', timeoutMs: 60_000 });
  }

  /** Sets the number of replicas, as a person does. */
  async setReplicas({ namespace, workload }: PodChoice, replicas: number): Promise<void> {
    const path = `/apis/apps/v1/namespaces/${namespace}/deployments/${workload}/scale`;
    await this.server.call('PATCH', path, { spec: { replicas } }, MERGE);
  }

  async replicasOf({ namespace, workload }: PodChoice): Promise<number> {
    const { spec } = await this.server.call('GET', `/apis/apps/v1/namespaces/${namespace}/deployments/${workload}`);
    return Number(asRecord(spec)?.replicas ?? 0);
  }

  /** Pods of a Deployment, those that end included, in the order of their names. */
  async podsOf({ namespace, workload }: PodChoice): Promise<readonly LivePod[]> {
    const { items } = await this.server.call(
      'GET',
      `/api/v1/namespaces/${namespace}/pods?labelSelector=app=${workload}`,
    );
    const pods = (items as readonly UnknownRecord[]).map(livePod);
    return pods.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  }

  /**
   * Waits until the pods of a Deployment are as they should be, and plays the kubelets meanwhile. Rejects after a
   * minute.
   */
  async until(choice: PodChoice, what: string, is: (pods: readonly LivePod[]) => boolean): Promise<readonly LivePod[]> {
    return await waitUntil(
      async () => {
        await this.#act(choice.namespace);
        const pods = await this.podsOf(choice);
        return is(pods) && pods;
      },
      { what, timeoutMs: 60_000 },
    );
  }

  /** Waits until a Deployment has that many pods, all ready, and no other one. */
  async untilReady(choice: PodChoice, count: number): Promise<readonly LivePod[]> {
    const isSettled = (pods: readonly LivePod[]): boolean => pods.length === count && pods.every((pod) => pod.isReady);
    return await this.until(choice, `${count} ready pods of ${choice.workload}`, isSettled);
  }

  /** Does what the kubelets of a namespace do: starts pods, ends them, and says whether they are ready. */
  async #act(namespace: string): Promise<void> {
    const { items } = await this.server.call('GET', `/api/v1/namespaces/${namespace}/pods`);
    for (const item of items as readonly UnknownRecord[]) {
      const { name, hasNode, isReady, isEnding } = livePod(item);
      const path = `/api/v1/namespaces/${namespace}/pods/${name}`;
      const mustBeReady = !this.unready.has(name);
      const isKnown = asRecord(item.status)?.phase === 'Running';
      // The pod may be gone by now, or the server away: the next look sees it.
      const gone = (): undefined => undefined;
      if (isEnding) await this.server.call('DELETE', path, { gracePeriodSeconds: 0 }).catch(gone);
      else if (hasNode && (!isKnown || isReady !== mustBeReady)) {
        await this.server.call('PATCH', `${path}/status`, running(mustBeReady), STRATEGIC).catch(gone);
      }
    }
  }
}

function livePod({ metadata, spec, status }: UnknownRecord): LivePod {
  const { name, uid, deletionTimestamp } = asRecord(metadata) ?? {};
  const conditions = (asRecord(status)?.conditions ?? []) as readonly UnknownRecord[];
  return {
    name: String(name),
    uid: String(uid),
    hasNode: Boolean(asRecord(spec)?.nodeName),
    isReady: conditions.some(({ type, status: is }) => type === 'Ready' && is === 'True'),
    isEnding: deletionTimestamp !== undefined,
  };
}

/** Status of a pod whose containers run. */
function running(isReady: boolean): object {
  const now = new Date().toISOString().replace(/\.\d+/, '');
  const state = { running: { startedAt: now } };
  const image = { image: 'none', imageID: '' };
  const container = { name: 'main', ready: isReady, started: true, restartCount: 0, ...image, state };
  const ready = { type: 'Ready', status: isReady ? 'True' : 'False', lastTransitionTime: now };
  return { status: { phase: 'Running', conditions: [ready], containerStatuses: [container] } };
}
