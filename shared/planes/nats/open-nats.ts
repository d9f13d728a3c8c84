import type { Clock } from '../../clock/index.ts';
import type { FleetSettings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { addressesOf, NatsClient } from './client.ts';
import type { NatsIdentity, NatsObserver, NatsTls } from './types.ts';

/**
 * Opens a connection to NATS for one purpose, which its server shows as `stator-{purpose}`. It is made when first
 * needed.
 */
export function openNats(
  settings: FleetSettings,
  clock: Clock,
  purpose: 'events' | 'requests' | 'snapshots',
  logger: Logger | undefined,
): NatsClient {
  const identity = identityOf(settings);
  const tls = tlsOf(settings);
  return new NatsClient({
    clock,
    servers: settings.natsServer,
    name: `stator-${purpose}`,
    ...(identity === undefined ? {} : { identity }),
    ...(tls === undefined ? {} : { tls }),
    ...(logger === undefined
      ? {}
      : { observer: logOutages(logger, { purpose, server: addressesOf(settings.natsServer) }) }),
  });
}

/** Returns the first kind of credentials that is set. */
function identityOf(settings: FleetSettings): NatsIdentity | undefined {
  const { natsAuthUsername: username, natsAuthPassword: password, natsAuthToken: token } = settings;
  const { natsAuthNkey: seed, natsAuthCredentialsFile: file } = settings;
  if (username !== undefined && password !== undefined) return { kind: 'password', username, password };
  if (token !== undefined) return { kind: 'token', token };
  if (seed !== undefined) return { kind: 'nkey', seed };
  return file === undefined ? undefined : { kind: 'credentials', file };
}

function tlsOf(settings: FleetSettings): NatsTls | undefined {
  const { natsTlsCaCertPath: caFile, natsTlsClientCertPath: certFile, natsTlsClientKeyPath: keyFile } = settings;
  const isInsecure = settings.natsTlsInsecure;
  if (caFile === undefined && certFile === undefined && keyFile === undefined && !isInsecure) return undefined;
  return {
    isInsecure,
    ...(caFile === undefined ? {} : { caFile }),
    ...(certFile === undefined ? {} : { certFile }),
    ...(keyFile === undefined ? {} : { keyFile }),
  };
}

/** Logs one line when an outage begins and one when it is over, however many attempts lie between. */
function logOutages(logger: Logger, about: { readonly purpose: string; readonly server: string }): NatsObserver {
  const { purpose } = about;
  let isAway = false;
  return {
    connected(server) {
      if (isAway) logger.info('NATS is back', { purpose, server });
      isAway = false;
    },
    away(reason) {
      if (!isAway) logger.warn('NATS is away', { ...about, reason });
      isAway = true;
    },
    problem: (problem) => logger.warn('NATS problem', { purpose, problem: reasonOf(problem) }),
  };
}
