import { composeFrontend } from '../compose/frontend.ts';
import { openLogger } from '../compose/logger.ts';
import { rolesOf } from '../compose/roles.ts';
import { serveFrontend } from '../compose/serve-frontend.ts';
import { stopSignal } from '../compose/stop-signal.ts';
import type { CommandContext } from './commands.ts';

/** `stator frontend`: serves HTTP until told to stop, then drains. */
export async function run({ settings: given, config }: CommandContext<'frontend'>): Promise<number> {
  const { settings, servesClients } = rolesOf(given);
  const stopped = stopSignal();
  const logger = openLogger(settings);
  const frontend = await composeFrontend(settings, {
    logger,
    plane: { poolSizeMax: settings.tcpPoolSize },
    servesClients,
    given: config.given.keys(),
  });
  const server = await serveFrontend(frontend, settings, logger);
  logger.info('serving', { url: server.url, models: frontend.models.list().map(({ name }) => name) });
  logger.info('draining', { reason: await stopped });
  await server.drain();
  logger.info('stopped');
  return 0;
}
