import type { Discovery, DiscoveryEvent, EndpointRecord, ModelRecord, Watch } from '../../discovery/index.ts';
import type { Transport } from '../../planes/request/index.ts';
import type { PlacedWorker } from '../feed/index.ts';
import type { RoutableWorker } from '../types.ts';

/** The endpoint whose instances are routed to, `namespace.component.endpoint`. */
export interface EndpointName {
  readonly namespace: string;
  readonly component: string;
  readonly endpoint: string;
}

/** Undefined when the text is no `namespace.component.endpoint`; a namespace may have dots of its own. */
export function parseEndpointName(text: string): EndpointName | undefined {
  const [, namespace, component, endpoint] = /^(?:dyn:\/\/)?([^\s/]+)\.([^\s./]+)\.([^\s./]+)$/.exec(text) ?? [];
  if (namespace === undefined || component === undefined || endpoint === undefined) return undefined;
  return { namespace, component, endpoint };
}

/** An instance of the endpoint. */
export interface EndpointWorker extends RoutableWorker, PlacedWorker {
  readonly transport: Transport;
  /** Of its card; undefined when it has none. */
  readonly blockSizeTokens: number | undefined;
}

/** The live instances of one endpoint, with what their model cards say of them, kept current. */
export class EndpointWorkers {
  readonly #name: EndpointName;
  readonly #onChange: (workers: readonly EndpointWorker[]) => void;
  readonly #endpoints = new Map<string, EndpointRecord>();
  readonly #cards = new Map<string, ModelRecord>();
  #workers: readonly EndpointWorker[] = [];
  #watches: readonly Watch[] = [];

  constructor(name: EndpointName, onChange: (workers: readonly EndpointWorker[]) => void) {
    this.#name = name;
    this.#onChange = onChange;
  }

  /** Reads the present set and follows changes. Rejects when discovery cannot be read. */
  async start(discovery: Discovery, signal: AbortSignal): Promise<void> {
    const prefix = Object.values(this.#name).join('/');
    this.#watches = await Promise.all([
      discovery.watch({ bucket: 'v1/instances', prefix }, { event: (event) => this.#applyEndpoint(event) }, signal),
      discovery.watch({ bucket: 'v1/mdc', prefix }, { event: (event) => this.#applyCard(event) }, signal),
    ]);
  }

  /** The same list until something changes. */
  get workers(): readonly EndpointWorker[] {
    return this.#workers;
  }

  close(): void {
    for (const watch of this.#watches) watch.close();
  }

  #applyEndpoint(event: DiscoveryEvent): void {
    if (event.kind === 'removed') this.#endpoints.delete(event.key);
    else if (event.record.type === 'Endpoint') this.#endpoints.set(event.key, event.record);
    this.#rebuild();
  }

  #applyCard(event: DiscoveryEvent): void {
    if (event.kind === 'removed') this.#cards.delete(event.key);
    else if (event.record.type === 'Model' && event.record.model_suffix === undefined) {
      this.#cards.set(event.key, event.record);
    }
    this.#rebuild();
  }

  #rebuild(): void {
    const cards = new Map([...this.#cards.values()].map((record) => [record.instance_id, record]));
    this.#workers = [...this.#endpoints.values()].map((record) => workerOf(record, cards.get(record.instance_id)));
    this.#onChange(this.#workers);
  }
}

/** An instance without a card has one rank. */
function workerOf(endpoint: EndpointRecord, card: ModelRecord | undefined): EndpointWorker {
  const runtime = card?.card.runtime_config ?? {};
  return {
    id: endpoint.instance_id,
    transport: endpoint.transport,
    blockSizeTokens: card?.card.kv_cache_block_size,
    scope: { namespace: endpoint.namespace, component: endpoint.component },
    hasLocalIndexer: runtime.enable_local_indexer !== false,
    dataParallelStartRank: runtime.data_parallel_start_rank ?? 0,
    dataParallelSize: runtime.data_parallel_size ?? 1,
    totalKvBlocks: runtime.total_kv_blocks,
    maxNumBatchedTokens: runtime.max_num_batched_tokens,
    deviceType: endpoint.device_type,
    taints: runtime.taints ?? [],
  };
}
