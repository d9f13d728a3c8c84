import type { Clock } from '../../clock/index.ts';
import type { FleetSettings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { addressesOf, NatsClient } from './client.ts';
import type { NatsIdentity, NatsObserver, NatsOptions, NatsTls } from './types.ts';

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
  return new NatsClient({
    clock,
    servers: settings.natsServer,
    name: `stator-${purpose}`,
    ...(identity === undefined ? {} : { identity }),
    ...(tls === undefined ? {} : { tls }),
    ...(logger === undefined
      ? {}
      : { observer: logOutages(clock, logger, { purpose, server: addressesOf(settings.natsServer) }) }),
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
function logOutages(
  clock: Clock,
  logger: Logger,
  about: { readonly purpose: string; readonly server: string },
): NatsObserver {
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
    problem: tellSome(clock, (problem, untold) =>
      logger.warn('NATS problem', { purpose, problem: reasonOf(problem), ...(untold === 0 ? {} : { untold }) }),
    ),
  };
}

const AT_ONCE = 10;
const EACH_MS = 1000;

/**
 * Hands on ten at once and one a second after that, with how many were left out since the last: whoever can reach a plane can
 * send what cannot be read, as fast as it likes, and a line for each would cost more than reading it.
 */
export function tellSome(clock: Clock, tell: (problem: unknown, untold: number) => void): (problem: unknown) => void {
  let allowed = AT_ONCE;
  let fromMs = clock.nowMs();
  let untold = 0;
  return (problem) => {
    const nowMs = clock.nowMs();
    allowed = Math.min(AT_ONCE, allowed + (nowMs - fromMs) / EACH_MS);
    fromMs = nowMs;
    if (allowed < 1) {
      untold++;
      return;
    }
    allowed--;
    tell(problem, untold);
    untold = 0;
  };
}
