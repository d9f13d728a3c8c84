import type { Clock } from '../clock/index.ts';
import type { FleetSettings } from '../config/index.ts';
import { reasonOf } from '../errors/index.ts';
import {
  createNatsClient,
  type NatsClient,
  type NatsIdentity,
  type NatsObserver,
  type NatsOptions,
  type NatsTls,
} from '../planes/nats/index.ts';
import type { Logger } from '../telemetry/index.ts';
import { tellSome } from './tell-some.ts';

/** A connection to NATS for one purpose, which its server shows as `stator-{purpose}`. Made when first needed. */
export function openNats(
  settings: FleetSettings,
  clock: Clock,
  purpose: 'events' | 'requests' | 'snapshots',
  logger: Logger | undefined,
  more: Pick<NatsOptions, 'attemptsMax'> = {},
): NatsClient {
  const identity = identityOf(settings);
  const tls = tlsOf(settings);
  return createNatsClient({
    clock,
    servers: settings.natsServer,
    name: `stator-${purpose}`,
    ...(identity === undefined ? {} : { identity }),
    ...(tls === undefined ? {} : { tls }),
    ...(logger === undefined ? {} : { observer: logOutages(clock, logger, purpose) }),
    ...more,
  });
}

/** The first kind that is set. */
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

/** One line when an outage begins and one when it is over, however many attempts lie between. */
function logOutages(clock: Clock, logger: Logger, purpose: string): NatsObserver {
  let isAway = false;
  return {
    connected(server) {
      if (isAway) logger.info('NATS is back', { purpose, server });
      isAway = false;
    },
    away(reason) {
      if (!isAway) logger.warn('NATS is away', { purpose, reason });
      isAway = true;
    },
    problem: tellSome(clock, (problem, untold) =>
      logger.warn('NATS problem', { purpose, problem: reasonOf(problem), ...(untold === 0 ? {} : { untold }) }),
    ),
  };
}
