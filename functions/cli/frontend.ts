import { SYSTEM } from '../../shared/clock/index.ts';
import { chatWith } from '../../shared/commands/index.ts';
import type { ResolvedConfig } from '../../shared/config/index.ts';
import { type PassingSecrets, passSecrets } from '../../shared/fleet/index.ts';
import { composeFrontend, serveFrontend } from '../../shared/frontends/index.ts';
import { openLogger, openQuietLogger } from '../../shared/telemetry/index.ts';
import { stopSignal } from '../process.ts';

/** `stator frontend`: serves HTTP until told to stop, then drains; or chats in the terminal. */
export async function run(config: ResolvedConfig<'frontend'>): Promise<number> {
  const { settings } = config;
  const { interactive: isInteractive } = settings;
  const chatting = new AbortController();
  const stopped = stopSignal(chatting.signal);
  const logger = isInteractive ? openQuietLogger(config) : openLogger(settings);
  let passing: PassingSecrets | undefined;
  const secretsSinceMs = (): number | undefined => passing?.sinceMs;
  const frontend = await composeFrontend(settings, { ...SYSTEM, logger, secretsSinceMs });
  if (isInteractive) {
    try {
      await chatWith(frontend, settings.httpSvcChatPath, stopped, chatting);
    } finally {
      await frontend.close();
    }
    return 0;
  }
  const server = await serveFrontend(frontend, settings, logger);
  passing = passSecrets(settings, logger.for('secrets'));
  logger.info('serving', {
    url: server.url,
    address: server.address,
    grpc: server.grpcAddress,
    models: frontend.models.list().map(({ name }) => name),
  });
  logger.info('draining', { reason: await stopped });
  passing?.stop();
  await server.drain();
  logger.info('stopped');
  return 0;
}
