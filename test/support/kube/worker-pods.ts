import type { Fleet, StatorProcess } from '../fleet.ts';
import type { FakeApiServer } from './api-server.ts';
import type { KubeObject } from './object-store.ts';
import type { FakeWorkloads } from './workloads.ts';

/** Settings of the worker in a pod, in place of those of its manifest. */
const WORKER = {
  STATOR_EVENT_ROLLUP_INTERVAL_MS: '500',
  STATOR_LEASE_TTL_SECS: '2',
  DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: '1',
};

/**
 * The kubelets of a cluster whose pods are real workers. A pod that has a node starts one, and is ready once the worker
 * is. A pod whose end was ordered tells its worker to stop, and is gone once the worker is.
 */
export class WorkerPods {
  readonly #workers = new Map<string, Promise<StatorProcess>>();
  readonly #ending = new Set<string>();
  readonly #fleet: Fleet;
  readonly #workloads: FakeWorkloads;

  constructor(api: FakeApiServer, workloads: FakeWorkloads, fleet: Fleet) {
    this.#fleet = fleet;
    this.#workloads = workloads;
    api.store('pods').listen(({ after }) => {
      if (after !== undefined) this.#act(after);
    });
  }

  #act({ metadata: { name, deletionTimestamp }, spec }: KubeObject): void {
    const hasNode = (spec as { readonly nodeName?: string } | undefined)?.nodeName !== undefined;
    if (deletionTimestamp === undefined && hasNode && !this.#workers.has(name)) this.#start(name);
    if (deletionTimestamp === undefined || this.#ending.has(name)) return;
    this.#ending.add(name);
    void this.#end(name);
  }

  #start(name: string): void {
    const worker = this.#fleet.worker([], { ...WORKER, POD_NAME: name });
    this.#workers.set(name, worker);
    const isReady = (): void => {
      if (!this.#ending.has(name)) this.#workloads.setReady(name, true);
    };
    worker.then(isReady, () => {}); // a worker that does not start leaves its pod as it is
  }

  async #end(name: string): Promise<void> {
    const worker = await this.#workers.get(name);
    worker?.signal('SIGTERM');
    await worker?.exited;
    this.#workloads.removePod(name);
  }
}
