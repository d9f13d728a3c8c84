import type { KubeClient } from '../../discovery/index.ts';
import { KubeFailure } from '../../discovery/index.ts';
import { asRecord, type UnknownRecord } from '../../records/index.ts';
import { type ClaimGpus, gpusOfClaim } from './gpus.ts';
import { DELETION_COST, type Pod, readPod } from './pods.ts';
import { readSelector, type Selector } from './selectors.ts';
import { GROUP_LABELS, scalePath, type Workload } from './workload.ts';

/** The scale of a workload at one version. */
export interface Scale {
  readonly replicas: number;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Selector of the pods of the workload. */
  readonly selector: Selector;
}

const MERGE = 'application/merge-patch+json';
/** Objects of one page, and pages of a list. */
const PAGE_OBJECTS = '500';
const PAGES_MAX = 100;

/**
 * Calls to the API server that a planner needs, and their rights: `get` and `update` of the scale of workloads, `list`
 * and `patch` of pods, and `list` of resource claims if pods have such. Each rejects with a `KubeFailure`, or a
 * `DiscoveryError` for broken credentials.
 */
export class WorkloadCalls {
  readonly #client: KubeClient;
  readonly #namespace: string;

  constructor(client: KubeClient, namespace: string) {
    this.#client = client;
    this.#namespace = namespace;
  }

  /** Address of the API server and namespace, for messages. */
  get where(): string {
    return `namespace ${this.#namespace} of ${this.#client.server}`;
  }

  /** Returns the scale of a workload; undefined if there is no such workload. */
  async scaleOf(workload: Workload, signal: AbortSignal): Promise<Scale | undefined> {
    try {
      const scale = await this.#client.ask({ path: scalePath(workload, this.#namespace) }, signal);
      return readScale(scale, workload);
    } catch (thrown) {
      if (thrown instanceof KubeFailure && thrown.isAbsent) return undefined;
      throw thrown;
    }
  }

  /** Returns the pods that a selector chooses, as they were at one time. */
  async podsOf(selector: string, signal: AbortSignal): Promise<readonly Pod[]> {
    const found: Pod[] = [];
    await this.#list(this.#podsPath(), { labelSelector: selector }, signal, (item) => {
      const pod = readPod(item);
      if (pod !== undefined) found.push(pod);
    });
    return found;
  }

  /** Returns the GPUs of the resource claims of the namespace; none if the cluster has only earlier versions. */
  async claims(signal: AbortSignal): Promise<ClaimGpus> {
    const path = `/apis/resource.k8s.io/v1/namespaces/${encodeURIComponent(this.#namespace)}/resourceclaims`;
    const found = new Map<string, number | undefined>();
    try {
      await this.#list(path, {}, signal, (item) => {
        const name = asRecord(item.metadata)?.name;
        if (typeof name === 'string') found.set(name, gpusOfClaim(item));
      });
    } catch (thrown) {
      // Then the GPUs that the fleet states count, as for a claim that is not allocated yet.
      if (!(thrown instanceof KubeFailure && thrown.isAbsent)) throw thrown;
    }
    return found;
  }

  /** Sets the number of replicas, if the workload still has the version of `scale`. Rejects with a conflict if not. */
  async setScale(workload: Workload, { uid, resourceVersion }: Scale, replicas: number, signal: AbortSignal) {
    const metadata = { name: workload.name, namespace: this.#namespace, uid, resourceVersion };
    const body = { apiVersion: 'autoscaling/v1', kind: 'Scale', metadata, spec: { replicas } };
    await this.#client.ask({ method: 'PUT', path: scalePath(workload, this.#namespace), body }, signal);
  }

  /** Sets the deletion cost of a pod, or removes it. */
  async setDeletionCost({ name }: Pod, cost: number | undefined, signal: AbortSignal): Promise<void> {
    const annotations = { [DELETION_COST]: cost === undefined ? null : String(cost) };
    const path = `${this.#podsPath()}/${encodeURIComponent(name)}`;
    await this.#client.ask({ method: 'PATCH', path, body: { metadata: { annotations } }, contentType: MERGE }, signal);
  }

  close(): void {
    this.#client.close();
  }

  async #list(
    path: string,
    selected: Readonly<Record<string, string>>,
    signal: AbortSignal,
    take: (item: UnknownRecord) => void,
  ): Promise<void> {
    let page: string | undefined;
    for (let pages = 0; pages < PAGES_MAX; pages++) {
      const query = { ...selected, limit: PAGE_OBJECTS, ...(page !== undefined && { continue: page }) };
      const { items, metadata } = await this.#client.ask({ path, query }, signal);
      for (const item of Array.isArray(items) ? items : []) take(asRecord(item) ?? {});
      const next = asRecord(metadata)?.continue;
      if (typeof next !== 'string' || next === '') return;
      page = next;
    }
    throw new KubeFailure(0, `the list of ${path} has more than ${PAGES_MAX} pages of ${PAGE_OBJECTS} objects`);
  }

  #podsPath(): string {
    return `/api/v1/namespaces/${encodeURIComponent(this.#namespace)}/pods`;
  }
}

function readScale({ metadata, spec, status }: UnknownRecord, { kind, name }: Workload): Scale {
  const { uid, resourceVersion } = asRecord(metadata) ?? {};
  const { replicas = 0 } = asRecord(spec) ?? {}; // left out if it is 0
  const { selector } = asRecord(status) ?? {};
  const isWhole = typeof uid === 'string' && typeof resourceVersion === 'string' && typeof replicas === 'number';
  if (!isWhole) throw new KubeFailure(0, `the scale of ${kind}/${name} has no version, uid or number of replicas`);
  // A selector that is empty would mean all pods of the namespace.
  const own = kind === 'LeaderWorkerSet' ? `${GROUP_LABELS.set}=${name}` : selector;
  if (typeof own !== 'string' || own === '') {
    throw new KubeFailure(0, `the scale of ${kind}/${name} has no selector of its pods`);
  }
  return { replicas, uid, resourceVersion, selector: readSelector(own) };
}
