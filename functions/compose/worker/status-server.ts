import type { Settings } from '../../../shared/config/index.ts';
import type { ProcessLogger } from '../../../shared/telemetry/index.ts';
import { type StatusServer, type StatusServerOptions, startStatusServer } from '../../../shared/worker/index.ts';

/** The status server that the settings ask for; undefined = none. */
export async function openStatusServer(
  settings: Settings<'worker'>,
  logger: ProcessLogger,
  shown: Pick<StatusServerOptions, 'health' | 'metrics' | 'control' | 'model'>,
): Promise<StatusServer | undefined> {
  if (settings.systemPort === undefined || settings.systemPort < 0) return undefined;
  const log = logger.for('status');
  const server = await startStatusServer({
    ...shown,
    logger: log,
    port: settings.systemPort,
    host: settings.systemHost,
    healthPath: settings.systemHealthPath,
    livePath: settings.systemLivePath,
  });
  log.info('status server is up', { port: server.port });
  return server;
}
