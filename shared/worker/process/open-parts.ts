import { join } from 'node:path';
import { bucketPlace } from '../../artifacts/index.ts';
import type { Clock, TimeAndChance } from '../../clock/index.ts';
import { homeFolder, type Settings } from '../../config/index.ts';
import { followServiceCertificate, secureService } from '../../fleet/index.ts';
import type { Logger, ProcessLogger } from '../../telemetry/index.ts';
import { AdapterCache } from '../adapters/adapter-cache.ts';
import { type ControlServerOptions, startControlServer } from '../control/control-server.ts';
import type { SmallServer } from '../control/small-server.ts';
import { type StatusServerOptions, startStatusServer } from '../control/status-server.ts';

/** Opens the status server that the settings ask for; returns undefined if they ask for none. */
export async function openStatusServer(
  settings: Settings<'worker'>,
  logger: ProcessLogger,
  shown: Pick<StatusServerOptions, 'health' | 'metrics' | 'model'>,
): Promise<SmallServer | undefined> {
  if (settings.systemPort.first < 0) return undefined;
  const log = logger.for('status');
  const server = await startStatusServer({
    ...shown,
    logger: log,
    ports: settings.systemPort,
    host: settings.systemHost,
    healthPath: settings.systemHealthPath,
    livePath: settings.systemLivePath,
  });
  log.info('status server is up', { port: server.port });
  return server;
}

/**
 * Opens the server of the worker's controls that the settings ask for; returns undefined if they ask for none.
 * @throws Error with one line if every client could reach it, or the token would cross a network unencrypted
 */
export async function openControlServer(
  settings: Settings<'worker'>,
  clock: Clock,
  logger: ProcessLogger,
  control: ControlServerOptions['control'],
): Promise<SmallServer | undefined> {
  const { controlPort: port, controlHost: host } = settings;
  if (port === undefined || port < 0) return undefined;
  const remedy = 'set STATOR_CONTROL_HOST=127.0.0.1';
  const { admission, tls } = secureService(settings, { name: 'the control server', host, remedy });
  const log = logger.for('control');
  const server = await startControlServer({ control, admission, tls, logger: log, port, host });
  const following = followServiceCertificate(settings, clock, tls, server.useCertificate);
  log.info('control server is up', { port: server.port });
  return {
    ...server,
    close: () => {
      following?.cancel();
      return server.close();
    },
  };
}

/**
 * Returns the cache of adapters from buckets; undefined = the worker loads no adapters. Throws for plain HTTP that the
 * settings do not allow.
 */
export function adapterCache(
  settings: Settings<'worker'>,
  { clock, random }: TimeAndChance,
  logger: Logger,
): AdapterCache | undefined {
  const { loraEnabled, loraPath } = settings;
  if (!loraEnabled) return undefined;
  const folder = loraPath ?? join(homeFolder(), '.cache', 'dynamo_loras');
  const buckets = bucketPlace(settings);
  return new AdapterCache({ folder, buckets, clock, random, logger });
}
