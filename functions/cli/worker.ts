import { reasonOf } from '../../shared/errors/index.ts';
import { openLogger } from '../compose/logger.ts';
import { stopSignal } from '../compose/stop-signal.ts';
import { startWorkerProcess } from '../compose/worker.ts';
import type { CommandContext } from './commands.ts';
import { reportToParent } from './worker-report.ts';

/** `stator worker`: serves one engine until told to stop, then drains. */
export async function run({ settings, config }: CommandContext<'worker'>): Promise<number> {
  const stopped = stopSignal();
  const logger = openLogger(settings);
  const starting = new AbortController();
  const ready = startWorkerProcess(settings, logger, starting.signal, undefined, new Set(config.given.keys()));
  try {
    const first = await Promise.race([ready, stopped]);
    if (typeof first === 'string') {
      // Told to stop while the engine loads: give up, and clean up what had started.
      starting.abort(new Error(first));
      await ready.then((workers) => workers.drain()).catch(() => undefined);
      return 0;
    }
    await reportToParent({ kind: 'ready' });
    const reason = await Promise.race([stopped, first.engineExit]);
    logger.info('draining', { reason: reasonOf(reason) });
    await first.drain();
    return typeof reason === 'string' ? 0 : 1; // an engine that has died: whoever started us starts us again
  } catch (thrown) {
    if (await reportToParent({ kind: 'failed', reason: reasonOf(thrown) })) return 1; // the parent says it, once for all
    throw thrown;
  }
}
