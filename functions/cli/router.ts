import { openLogger } from '../compose/logger.ts';
import { stopSignal } from '../compose/stop-signal.ts';
import { startIndexer } from '../router/indexer.ts';
import { startSelectionService } from '../router/selection.ts';
import { serveApp } from '../router/service-server.ts';
import type { RunningService, ServiceSettings } from '../router/service-settings.ts';
import { startSlotTracker } from '../router/slot-tracker.ts';
import type { CommandContext } from './commands.ts';
import { UsageError } from './config.ts';

/** Answers under way when the process is told to stop. */
const GRACE_MS = 5000;

/** `stator router`: one of the standalone services (router.md, section 10) until told to stop. */
export async function run({ settings, config }: CommandContext<'router'>): Promise<number> {
  const stopped = stopSignal();
  const logger = openLogger(settings);
  const service = await startService(settings, logger, config.given.keys());
  const server = await serveApp(service.app, settings.serviceHost, settings.servicePort ?? service.port);
  logger.info('serving', { service: settings.service, url: server.url });
  logger.info('stopping', { reason: await stopped });
  await server.close(GRACE_MS);
  await service.close();
  return 0;
}

function startService(
  settings: ServiceSettings,
  logger: ReturnType<typeof openLogger>,
  given: Iterable<string>,
): Promise<RunningService> {
  const log = logger.for('router');
  switch (settings.service) {
    case 'indexer':
      return startIndexer(settings, log);
    case 'slots':
      return startSlotTracker(settings, log);
    case 'selection':
      return startSelectionService(settings, log, given);
    default:
      throw new UsageError(`stator router --service ${settings.service} is not built yet`);
  }
}
