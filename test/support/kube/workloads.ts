import type { Clock } from '../../../shared/clock/index.ts';
import type { FakeApiServer } from './api-server.ts';
import type { KubeObject, ObjectStore } from './object-store.ts';

/** Facts of a cluster that runs workloads. */
export interface WorkloadsOptions {
  readonly clock: Clock;
  /** GPUs of the cluster. A replica needs one. @default 1000 */
  readonly gpus?: number;
  /** Time from a pod on a node to one that is ready. @default the caller says when, with `setReady` */
  readonly startMs?: number;
  /** Time in which a pod ends. @default the caller says when, with `removePod` */
  readonly endMs?: number;
  /** @default default */
  readonly namespace?: string;
}

type Plain = Readonly<Record<string, unknown>>;
const COST = 'controller.kubernetes.io/pod-deletion-cost';
const LWS = 'leaderworkerset.sigs.k8s.io';

/**
 * The controllers, the scheduler and the kubelets of a cluster, for Deployments and LeaderWorkerSets: they react to
 * each change of a number of replicas at once, as controllers do that are not behind. A surplus of pods goes in the
 * order that Kubernetes documents ("Pod deletion cost"): without a node, pending, not ready, lowest cost, ready for the
 * shortest time.
 */
export class FakeWorkloads {
  readonly #api: FakeApiServer;
  readonly #options: WorkloadsOptions;
  /** Further labels of the pods of a workload, by its name. */
  readonly #labels = new Map<string, Readonly<Record<string, string>>>();
  #serial = 0;
  #gpus: number;
  /** Names of the pods whose end was ordered, in order. */
  readonly ended: string[] = [];
  /** Why the containers of a workload wait, as the kubelet says it. They never start. */
  readonly waiting = new Map<string, { readonly reason: string; readonly message?: string }>();
  /** Workloads whose pods no node has room for, whatever other nodes have: those of a market without capacity. */
  readonly nodeless = new Set<string>();
  /** Whether the controllers act. */
  isActing = true;

  constructor(api: FakeApiServer, options: WorkloadsOptions) {
    this.#api = api;
    this.#options = options;
    this.#gpus = options.gpus ?? 1000;
    for (const resource of ['deployments', 'leaderworkersets']) {
      api.store(resource, options.namespace).listen(() => this.reconcile());
    }
  }

  /** Adds a Deployment. @param labels further labels of its pods */
  addDeployment(name: string, replicas: number, labels: Readonly<Record<string, string>> = {}): void {
    const { namespace = 'default' } = this.#options;
    this.#labels.set(name, labels);
    this.#store('deployments').set(name, {
      metadata: { namespace },
      spec: { replicas, selector: { matchLabels: { app: name } } },
    });
  }

  /** Adds a LeaderWorkerSet whose groups have `size` pods. @param more further labels of its pods */
  addGroups(name: string, replicas: number, size: number, more: Readonly<Record<string, string>> = {}): void {
    const { namespace = 'default' } = this.#options;
    const labels = { [`${LWS}/name`]: name, [`${LWS}/worker-index`]: '0' };
    this.#labels.set(name, more);
    this.#store('leaderworkersets').set(name, {
      metadata: { namespace },
      spec: { replicas, size, selector: { matchLabels: labels } },
    });
  }

  set gpus(gpus: number) {
    this.#gpus = gpus;
    this.reconcile();
  }

  replicasOf(name: string, resource = 'deployments'): number {
    return Number(specOf(this.#store(resource).get(name)).replicas);
  }

  setReplicas(name: string, replicas: number, resource = 'deployments'): void {
    this.#store(resource).merge(name, { spec: { replicas } });
  }

  /** Names of the pods of a workload that are not ending. */
  podsOf(name: string): readonly string[] {
    return this.#active(name).map(({ metadata }) => metadata.name);
  }

  isReady(pod: string): boolean {
    const ready = conditionsOf(this.#store('pods').get(pod)).find(({ type }) => type === 'Ready');
    return ready?.status === 'True';
  }

  setReady(pod: string, isReady: boolean): void {
    this.#condition(pod, 'Ready', isReady ? 'True' : 'False');
  }

  /** Removes a pod that has ended. */
  removePod(pod: string): void {
    this.#store('pods').remove(pod);
    this.reconcile();
  }

  /** Adds a pod of another template, as during a rollout. */
  addSurge(name: string): void {
    this.#create(name, `${name}-surge`, { 'pod-template-hash': 'new' });
    this.#schedule();
  }

  /** Does what controllers and scheduler do. */
  reconcile(): void {
    if (!this.isActing) return;
    for (const { metadata, spec } of this.#store('deployments').objects) {
      this.#scaleDeployment(metadata.name, Number((spec as Plain).replicas));
    }
    for (const { metadata, spec } of this.#store('leaderworkersets').objects) {
      this.#scaleGroups(metadata.name, Number((spec as Plain).replicas), Number((spec as Plain).size));
    }
    this.#schedule();
  }

  #scaleDeployment(name: string, replicas: number): void {
    const active = this.#active(name);
    for (let missing = replicas - active.length; missing > 0; missing--) {
      this.#create(name, `${name}-${String(++this.#serial).padStart(4, '0')}`, { 'pod-template-hash': 'first' });
    }
    const surplus = Math.max(0, active.length - replicas);
    for (const { metadata } of active.toSorted(endsBefore).slice(0, surplus)) this.#end(metadata.name);
  }

  #scaleGroups(name: string, replicas: number, size: number): void {
    const active = this.#active(name);
    const has = (pod: string): boolean => this.#store('pods').get(pod) !== undefined;
    for (let group = 0; group < replicas; group++) {
      for (let at = 0; at < size; at++) {
        const pod = at === 0 ? `${name}-${group}` : `${name}-${group}-${at}`;
        const labels = { [`${LWS}/name`]: name, [`${LWS}/group-index`]: `${group}`, [`${LWS}/worker-index`]: `${at}` };
        if (!has(pod)) this.#create(name, pod, labels);
      }
    }
    for (const { metadata } of active) {
      if (Number(metadata.labels?.[`${LWS}/group-index`]) >= replicas) this.#end(metadata.name);
    }
  }

  #create(app: string, pod: string, labels: Readonly<Record<string, string>>): void {
    const creationTimestamp = this.#now();
    this.#store('pods').set(pod, {
      metadata: { labels: { ...this.#labels.get(app), app, ...labels }, creationTimestamp },
      spec: {},
      status: { phase: 'Pending', conditions: [] },
    });
  }

  #end(pod: string): void {
    this.ended.push(pod);
    this.#store('pods').merge(pod, { metadata: { deletionTimestamp: this.#now() } });
    const { clock, endMs } = this.#options;
    if (endMs !== undefined) clock.after(endMs, () => this.removePod(pod));
  }

  /** Gives pods a node while there are GPUs, and tells the others why not. */
  #schedule(): void {
    const { clock, startMs } = this.#options;
    const pods = this.#store('pods').objects;
    let free = this.#gpus - pods.filter((pod) => specOf(pod).nodeName !== undefined).length;
    for (const pod of pods.filter((each) => specOf(each).nodeName === undefined && isActive(each))) {
      const { name, uid } = pod.metadata;
      if (this.nodeless.has(pod.metadata.labels?.app ?? '') || free-- <= 0) {
        const message = '0/3 nodes are available: 3 Insufficient nvidia.com/gpu.';
        this.#condition(name, 'PodScheduled', 'False', { reason: 'Unschedulable', message });
        continue;
      }
      const waiting = this.waiting.get(pod.metadata.labels?.app ?? '');
      if (waiting !== undefined) {
        const status = { containerStatuses: [{ state: { waiting }, started: false, restartCount: 0 }] };
        this.#store('pods').merge(name, { spec: { nodeName: 'node' }, status });
        this.#condition(name, 'PodScheduled', 'True');
        this.#condition(name, 'Ready', 'False');
        continue;
      }
      const running = { state: { running: { startedAt: this.#now() } }, started: true, restartCount: 0 };
      const status = { phase: 'Running', containerStatuses: [running] };
      this.#store('pods').merge(name, { spec: { nodeName: 'node' }, status });
      this.#condition(name, 'PodScheduled', 'True');
      this.#condition(name, 'Ready', 'False');
      if (startMs === undefined) continue;
      clock.after(startMs, () => {
        if (this.#store('pods').get(name)?.metadata.uid === uid) this.setReady(name, true);
      });
    }
  }

  #store(resource: string): ObjectStore {
    return this.#api.store(resource, this.#options.namespace);
  }

  #condition(pod: string, type: string, status: string, more: Plain = {}): void {
    const store = this.#store('pods');
    const conditions = conditionsOf(store.get(pod));
    const before = conditions.find((each) => each.type === type);
    if (before?.status === status) return;
    const next = { type, status, lastTransitionTime: this.#now(), ...more };
    const others = conditions.filter((each) => each.type !== type);
    store.merge(pod, { status: { conditions: [...others, next] } });
  }

  #active(name: string): readonly KubeObject[] {
    return this.#store('pods').objects.filter((pod) => pod.metadata.labels?.app === name && isActive(pod));
  }

  /** The API has times in whole seconds. */
  #now(): string {
    return new Date(this.#options.clock.wallMs()).toISOString().replace(/\.\d+/, '');
  }
}

function isActive({ metadata, status }: KubeObject): boolean {
  return metadata.deletionTimestamp === undefined && (status as Plain | undefined)?.phase !== 'Failed';
}

function specOf(object: KubeObject | undefined): Plain {
  return (object?.spec ?? {}) as Plain;
}

function conditionsOf(pod: KubeObject | undefined): readonly Plain[] {
  return ((pod?.status as Plain | undefined)?.conditions ?? []) as readonly Plain[];
}

function endsBefore(one: KubeObject, other: KubeObject): number {
  const ready = (pod: KubeObject) => conditionsOf(pod).find(({ type }) => type === 'Ready');
  const costOf = ({ metadata }: KubeObject): number => Number(metadata.annotations?.[COST] ?? 0);
  const hasNode = (pod: KubeObject): number => Number(specOf(pod).nodeName !== undefined);
  const runs = (pod: KubeObject): number => Number((pod.status as Plain).phase === 'Running');
  const isReady = (pod: KubeObject): number => Number(ready(pod)?.status === 'True');
  const since = (pod: KubeObject): number => Date.parse(String(ready(pod)?.lastTransitionTime)) || 0;
  return (
    hasNode(one) - hasNode(other) ||
    runs(one) - runs(other) ||
    isReady(one) - isReady(other) ||
    costOf(one) - costOf(other) ||
    since(other) - since(one)
  );
}
