import type { EndpointRecord } from '../discovery/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { PlaneServer } from '../planes/request/index.ts';
import type { RouterEndpoint } from '../router/service/index.ts';
import type { RoutingParts } from './feeds/index.ts';

/** Where a frontend answers other routers: its listener on the request plane, and its records in discovery. */
export interface RouterServer {
  readonly instanceId: string;
  readonly plane: PlaneServer;
  /** Names endpoints of a component in discovery. */
  register(namespace: string, component: string, endpoints: readonly RouterEndpoint[]): Promise<void>;
  /** Takes names out of discovery again; what cannot be withdrawn goes with the lease. */
  withdraw(namespace: string, component: string, endpoints: readonly RouterEndpoint[]): Promise<void>;
  /** Withdraws every name and closes the listener. */
  close(): Promise<void>;
}

const START_MS_MAX = 15_000;
const STOP_MS_MAX = 1000;

/** Listens on the request plane. Rejects when the port cannot be bound. */
export async function openRouterServer({
  discovery,
  openServingPlane,
  random,
  logger,
}: RoutingParts): Promise<RouterServer> {
  const plane = await openServingPlane();
  const instanceId = random.instanceId();
  const server = await plane.serve({ instanceId, signal: AbortSignal.timeout(START_MS_MAX) });
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
  return {
    instanceId,
    plane: server,
    register: async (namespace, component, endpoints) => {
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
    close: async () => {
      await remove([...names]);
      await server.close();
      await plane.close();
    },
  };
}
