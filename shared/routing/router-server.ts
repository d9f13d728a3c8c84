import { Lifetime } from '../concurrency/index.ts';
import type { Discovery, EndpointRecord } from '../discovery/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { RoutableModel } from '../pipeline/index.ts';
import type { PlaneServer } from '../planes/index.ts';
import {
  INDEX_RECORD_ENDPOINT,
  type RouterEndpoint,
  type ServedIndex,
  serveIndexOnPlane,
} from '../router-service/index.ts';
import type { KvRouter } from '../scheduler/index.ts';
import type { Logger } from '../telemetry/index.ts';
import type { RoutingDeps } from './feeds.ts';

/** The listener on which a frontend answers other routers, and its records in discovery. */
export interface RouterServer {
  readonly instanceId: string;
  readonly plane: PlaneServer;
  /** Registers endpoints of a component in discovery. */
  register(namespace: string, component: string, endpoints: readonly RouterEndpoint[]): Promise<void>;
  /** Withdraws endpoints from discovery. Those that cannot be withdrawn expire with the lease. */
  withdraw(namespace: string, component: string, endpoints: readonly RouterEndpoint[]): Promise<void>;
  /** Withdraws every name and closes the listener. */
  close(): Promise<void>;
}

const START_MS_MAX = 15_000;
const STOP_MS_MAX = 1000;

/** Listens on the request plane. Rejects if the port cannot be bound. */
export function openRouterServer(deps: RoutingDeps): Promise<RouterServer> {
  return Lifetime.compose((lifetime) => listen(deps, lifetime));
}

async function listen(
  { discovery, openServingPlane, random, logger }: RoutingDeps,
  lifetime: Lifetime,
): Promise<RouterServer> {
  const plane = await lifetime.use(openServingPlane());
  const instanceId = random.instanceId();
  const server = await lifetime.use(plane.serve({ instanceId, signal: AbortSignal.timeout(START_MS_MAX) }));
  const names = new Set<EndpointRecord>();
  const remove = async (leaving: readonly EndpointRecord[]): Promise<void> => {
    const asked = leaving.map((record) => discovery.remove(record, AbortSignal.timeout(STOP_MS_MAX)));
    for (const outcome of await Promise.allSettled(asked)) {
      if (outcome.status === 'rejected') {
        logger.for('router').warn('record not withdrawn', { reason: reasonOf(outcome.reason) });
      }
    }
    for (const record of leaving) names.delete(record);
  };
  lifetime.defer(() => remove([...names])); // first: no router is sent to a listener that closes
  return {
    instanceId,
    plane: server,
    register: async (namespace, component, endpoints) => {
      await server.reachable(AbortSignal.timeout(START_MS_MAX));
      for (const endpoint of endpoints) {
        const record: EndpointRecord = { type: 'Endpoint', namespace, component, instance_id: instanceId, ...endpoint };
        await discovery.put(record, AbortSignal.timeout(START_MS_MAX));
        names.add(record);
      }
    },
    withdraw: (namespace, component, endpoints) =>
      remove(
        [...names].filter(
          (name) =>
            name.namespace === namespace &&
            name.component === component &&
            endpoints.some(({ endpoint }) => endpoint === name.endpoint),
        ),
      ),
    close: () => lifetime.close(),
  };
}

export interface IndexServerOptions {
  readonly server: RouterServer;
  readonly discovery: Discovery;
  readonly kv: Pick<KvRouter, 'find'>;
  /** Returns the present models. */
  models(): readonly RoutableModel[];
  /**
   * Whether the index contains only decisions. If so, only one process of a component may serve it, or no index would
   * have all decisions.
   */
  readonly isRecording: boolean;
  readonly logger: Logger;
}

type Scope = RoutableModel['workers'][number]['scope'];

const LIST_MS_MAX = 15_000;

/** Serves this process's block indexes to routers that keep none (`--serve-indexer`). */
export class IndexServer {
  readonly #options: IndexServerOptions;
  readonly #served = new Set<string>(); // components; bounded by those of the fleet

  constructor(options: IndexServerOptions) {
    this.#options = options;
  }

  /**
   * Serves the components of all workers. If a component cannot be served yet, the next change of the models tries
   * again.
   */
  follow(models: readonly RoutableModel[]): void {
    for (const { scope } of models.flatMap(({ workers }) => workers)) {
      const name = `${scope.namespace}/${scope.component}`;
      if (this.#served.has(name)) continue;
      this.#served.add(name);
      void this.#serve(scope).catch((error: unknown) => {
        this.#served.delete(name);
        const { logger } = this.#options;
        logger.error('the block index is not served', { component: name, reason: reasonOf(error) });
      });
    }
  }

  async #serve({ namespace, component }: Scope): Promise<void> {
    const { server, isRecording, logger } = this.#options;
    const endpoints = serveIndexOnPlane(server.plane, {
      instanceId: server.instanceId,
      namespace,
      component,
      find: (model) => this.#find(model, { namespace, component }),
      isRecording,
    });
    if (isRecording) await this.#requireAlone({ namespace, component }, () => true);
    await server.register(namespace, component, endpoints);
    try {
      // If several start at once, the one with the lowest id stays.
      if (isRecording) await this.#requireAlone({ namespace, component }, (other) => other < server.instanceId);
    } catch (error) {
      await server.withdraw(namespace, component, endpoints);
      throw error;
    }
    logger.info('the block index is served', { namespace, component, instance_id: server.instanceId });
  }

  /** @throws Error that names another process with the index of the component that `hasPrecedence` */
  async #requireAlone({ namespace, component }: Scope, hasPrecedence: (instanceId: string) => boolean): Promise<void> {
    const { server, discovery } = this.#options;
    const prefix = `${namespace}/${component}/${INDEX_RECORD_ENDPOINT}`;
    const query = { bucket: 'v1/instances', prefix } as const;
    const records = await discovery.list(query, AbortSignal.timeout(LIST_MS_MAX));
    const ids = records.flatMap((record) => (record.type === 'Endpoint' ? [record.instance_id] : []));
    const other = ids.find((id) => id !== server.instanceId && hasPrecedence(id));
    if (other === undefined) return;
    throw new Error(`instance ${other} serves it; without KV events only one process of a component may`);
  }

  #find(model: string, { namespace, component }: Scope): ServedIndex | undefined {
    const served = this.#options
      .models()
      .filter(({ pool }) => (pool.model ?? pool.key) === model)
      .find(({ workers }) =>
        workers.some(({ scope }) => scope.namespace === namespace && scope.component === component),
      );
    const found = served && this.#options.kv.find(served.pool);
    return found?.index && { index: found.index, ranks: found.ranks };
  }
}
