import { randomBytes } from 'node:crypto';
import { systemClock } from '../../clock/index.ts';
import { refuseOpenListener } from '../../planes/request/index.ts';
import { ReplicaPools } from '../../router/standalone/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { openReplicaLink } from './replica-link.ts';
import type { ServiceSettings } from './service-settings.ts';

/** What a service tells its replicas and hears of them. */
export interface OpenReplicas {
  readonly pools: ReplicaPools;
  /** Where the other replicas reach this one; undefined when it tells them nothing. */
  readonly endpoint: string | undefined;
  close(): Promise<void>;
}

/** Opens the service's own end; the others come by `--service-peers` and by the routes of replica sync. */
export async function openReplicas(
  { serviceHost: host, serviceSyncPort: port, planeOpen: open }: ServiceSettings,
  logger: Logger,
): Promise<OpenReplicas> {
  const name = 'the sync port (ZeroMQ, which asks nobody who they are)';
  const remedies = ['leave STATOR_ROUTER_SERVICE_SYNC_PORT out', 'set STATOR_ROUTER_SERVICE_HOST=127.0.0.1'];
  const listener = { name, address: host, protectedBy: undefined, open, remedies };
  const refusal = port === undefined ? undefined : refuseOpenListener(listener);
  if (refusal !== undefined) throw new Error(refusal);
  const link = await openReplicaLink({ host, port, logger }, (message) => pools.receive(message));
  const pools = new ReplicaPools(
    link,
    randomBytes(8)
      .toString('hex')
      .replace(/^0+(?=.)/, ''),
    systemClock,
  );
  if (link.endpoint !== undefined) logger.info('telling replicas', { endpoint: link.endpoint });
  return { pools, endpoint: link.endpoint, close: link.close };
}
