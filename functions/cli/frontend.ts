import { SYSTEM } from '../../shared/clock/index.ts';
import { chatWith, storedPlanners } from '../../shared/commands/index.ts';
import { Lifetime } from '../../shared/concurrency/index.ts';
import type { Environment, ResolvedConfig } from '../../shared/config/index.ts';
import { type PassingSecrets, passSecrets } from '../../shared/fleet/index.ts';
import { composeFrontend, serveFrontend } from '../../shared/frontends/index.ts';
import { openLogger, openQuietLogger } from '../../shared/telemetry/index.ts';
import { stopSignal } from '../process.ts';
import { withOwnModel } from './own-model.ts';

/** Runs `stator frontend`: serves HTTP until a signal stops it, then drains. Or it chats in the terminal. */
export async function run(config: ResolvedConfig<'frontend'>, env: Environment): Promise<number> {
  const { interactive: isInteractive } = config.settings;
  const chatting = new AbortController();
  const stopped = stopSignal(chatting.signal);
  const logger = isInteractive ? openQuietLogger(config) : openLogger(config.settings);
  const settings = await withOwnModel(config.settings, logger, stopped);
  if (settings === undefined) return 0;
  let passing: PassingSecrets | undefined;
  const secretsSinceMs = (): number | undefined => passing?.sinceMs;
  await Lifetime.run(async (lifetime) => {
    const planners = storedPlanners(settings, env);
    const frontend = await lifetime.use(composeFrontend(settings, { ...SYSTEM, logger, secretsSinceMs, planners }));
    if (isInteractive) return chatWith(frontend, settings.httpSvcChatPath, stopped, chatting);
    const server = await lifetime.use(serveFrontend(frontend, settings, logger), (serving) => serving.drain());
    passing = lifetime.use(passSecrets(settings, logger.for('secrets')), (each) => each.stop());
    logger.info('serving', {
      url: server.url,
      address: server.address,
      grpc: server.grpcAddress,
      endpoint_picker: server.pickerAddress,
      models: frontend.models.list().map(({ name }) => name),
    });
    logger.info('draining', { reason: await stopped });
  });
  if (!isInteractive) logger.info('stopped');
  return 0;
}
