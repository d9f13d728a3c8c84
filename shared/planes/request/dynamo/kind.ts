import type { Clock } from '../../../clock/index.ts';
import type { CallerSettings } from '../../../config/index.ts';
import type { Logger } from '../../../telemetry/index.ts';
import { openNats } from '../../nats/open-nats.ts';
import type { RequestPlaneObserver } from '../observer.ts';
import { readPlaneTls } from '../tcp/protection.ts';
import { homeHostOf } from './home-settings.ts';
import { DynamoPlane } from './plane.ts';

const IDLE_AFTER_MS = 300_000;
const POOL_SIZE = 100;

/**
 * Opens the plane that calls Dynamo's workers; undefined if they cannot dial this process.
 * @throws Error with one line if the settings name certificates that cannot be used
 */
export function openDynamoPlane(
  settings: CallerSettings,
  clock: Clock,
  observer: RequestPlaneObserver,
  logger: Logger | undefined,
): DynamoPlane | undefined {
  const host = homeHostOf(settings);
  if (host === undefined) return undefined;
  const readTls = () => readPlaneTls(settings);
  return new DynamoPlane({
    clock,
    observer,
    home: {
      host,
      port: settings.tcpResponseStreamPort ?? 0,
      handshakeTimeoutMs: settings.tcpTlsHandshakeTimeoutSecs * 1000,
      messageBytesMax: settings.tcpMaxMessageSize,
    },
    requests: {
      connectTimeoutMs: settings.tcpConnectTimeoutSecs * 1000,
      requestTimeoutMs: settings.tcpRequestTimeoutSecs * 1000,
      poolSizeMax: settings.tcpPoolSize ?? POOL_SIZE,
      requestsPerConnectionMax: settings.tcpChannelBuffer,
      idleAfterMs: IDLE_AFTER_MS,
    },
    tls: readTls(),
    readTls,
    openNats: () => openNats(settings, clock, 'requests', logger),
    natsTimeoutMs: settings.natsRequestTimeoutSecs * 1000,
  });
}
