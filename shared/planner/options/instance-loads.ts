import type { Discovery, DiscoveryEvent, FleetLoads, HostFacts, Watch } from '../../discovery/index.ts';

/** Load of an instance, over all its workers. */
export interface InstanceLoad {
  /** KV blocks in use by running requests. */
  readonly activeBlocks: number;
  /** Generation that its agent states. */
  readonly generation: string | undefined;
}

/** Registered workers that are remembered. */
const WORKERS_MAX = 100_000;

/**
 * Joins the loads that workers report in discovery with the instances on which they run, by the facts of the host that
 * each worker registers.
 */
export class InstanceLoads {
  readonly #hosts = new Map<string, { readonly worker: string; readonly host: HostFacts }>(); // by key of the record
  #loads: FleetLoads = new Map();
  #joined: ReadonlyMap<string, InstanceLoad> | undefined;
  readonly #watches: Watch[] = [];

  private constructor() {}

  /** Follows the workers of a namespace. */
  static async follow(discovery: Discovery, namespace: string, signal: AbortSignal): Promise<InstanceLoads> {
    const loads = new InstanceLoads();
    const listener = { event: (event: DiscoveryEvent) => loads.#hear(event) };
    try {
      loads.#watches.push(await discovery.watch({ bucket: 'v1/instances', prefix: namespace }, listener, signal));
      loads.#watches.push(
        discovery.watchLoads((reported) => {
          loads.#loads = reported;
          loads.#joined = undefined;
        }),
      );
    } catch (thrown) {
      loads.close();
      throw thrown;
    }
    return loads;
  }

  /** Returns the load of an instance; undefined if no worker of it reported one. */
  of(instanceId: string): InstanceLoad | undefined {
    this.#joined ??= this.#join();
    return this.#joined.get(instanceId);
  }

  close(): void {
    for (const watch of this.#watches) watch.close();
  }

  #hear(event: DiscoveryEvent): void {
    this.#joined = undefined;
    if (event.kind === 'removed') {
      this.#hosts.delete(event.key);
      return;
    }
    const { key, record } = event;
    this.#hosts.delete(key);
    if (record.type !== 'Endpoint' || record.host === undefined || this.#hosts.size >= WORKERS_MAX) return;
    this.#hosts.set(key, { worker: record.instance_id, host: record.host });
  }

  #join(): ReadonlyMap<string, InstanceLoad> {
    const joined = new Map<string, InstanceLoad>();
    const counted = new Set<string>(); // a worker may have several endpoints
    for (const { worker, host } of this.#hosts.values()) {
      const load = this.#loads.get(worker);
      if (load === undefined || counted.has(worker)) continue;
      counted.add(worker);
      const blocks = load.ranks.reduce((sum, { decodeBlocks }) => sum + decodeBlocks, 0);
      const before = joined.get(host.instance_id)?.activeBlocks ?? 0;
      joined.set(host.instance_id, { activeBlocks: before + blocks, generation: host.generation });
    }
    return joined;
  }
}
