import { reasonOf } from '../../shared/errors/index.ts';
import { openLogger } from '../compose/logger.ts';
import { serveUntilStopped } from '../compose/serve-until-stopped.ts';
import { startWorkerProcess } from '../compose/worker.ts';
import type { CommandContext } from './commands.ts';
import { reportToParent } from './worker-report.ts';

/** `stator worker`: serves one engine until told to stop, then drains. */
export async function run({ settings, config }: CommandContext<'worker'>): Promise<number> {
  const logger = openLogger(settings);
  const start = (signal: AbortSignal) =>
    startWorkerProcess(settings, logger, signal, undefined, new Set(config.given.keys()));
  try {
    return await serveUntilStopped(start, async (worker, stopped) => {
      await reportToParent({ kind: 'ready' });
      const reason = await Promise.race([stopped, worker.engineExit]);
      logger.info('draining', { reason: reasonOf(reason) });
      await worker.drain();
      return typeof reason === 'string' ? 0 : 1; // an engine that has died: whoever started us starts us again
    });
  } catch (thrown) {
    if (await reportToParent({ kind: 'failed', reason: reasonOf(thrown) })) return 1; // the parent says it, once for all
    throw thrown;
  }
}
