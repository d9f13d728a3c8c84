import type { Discovery } from '../discovery/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { RoutableModel } from '../pipeline/index.ts';
import type { KvRouter } from '../router/scheduler/index.ts';
import { INDEX_RECORD_ENDPOINT, type ServedIndex, serveIndexOnPlane } from '../router/service/index.ts';
import type { Logger } from '../telemetry/index.ts';
import type { RouterServer } from './router-server.ts';

export interface IndexServerOptions {
  readonly server: RouterServer;
  readonly discovery: Discovery;
  readonly kv: Pick<KvRouter, 'pools'>;
  /** The models as they are now. */
  models(): readonly RoutableModel[];
  /** The index knows of decisions alone: one process a component may serve it, or none would know of all. */
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

  /** Serves the components of all workers. One that cannot be served yet is tried again when the models change. */
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
      // Of several that come at once, the one with the lowest id stays.
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
    throw new Error(`instance ${other} serves it; without KV events one process a component may`);
  }

  #find(model: string, { namespace, component }: Scope): ServedIndex | undefined {
    const served = this.#options
      .models()
      .filter(({ pool }) => (pool.model ?? pool.key) === model)
      .find(({ workers }) =>
        workers.some(({ scope }) => scope.namespace === namespace && scope.component === component),
      );
    const found = this.#options.kv.pools.find(
      ({ pool }) => pool.key === served?.pool.key && pool.role === served.pool.role,
    );
    return found?.index && { index: found.index, ranks: found.ranks };
  }
}
