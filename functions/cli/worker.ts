import { reasonOf } from '../../shared/errors/index.ts';
import { openLogger } from '../compose/logger.ts';
import { stopSignal } from '../compose/stop-signal.ts';
import { startWorkerProcess } from '../compose/worker.ts';
import type { CommandContext } from './commands.ts';
import { reportToParent } from './worker-report.ts';

/** `stator worker`: serves one engine until told to stop, then drains. */
export async function run({ settings }: CommandContext<'worker'>): Promise<number> {
  const stopped = stopSignal();
  const logger = openLogger(settings);
  const starting = new AbortController();
  const ready = startWorkerProcess(settings, logger, starting.signal);
  try {
    const first = await Promise.race([ready, stopped]);
    if (typeof first === 'string') {
      // Told to stop while the engine loads: give up, and clean up what had started.
      starting.abort(new Error(first));
      await ready.then((workers) => workers.drain()).catch(() => undefined);
      return 0;
    }
    await reportToParent({ kind: 'ready' });
    logger.info('draining', { reason: await stopped });
    await first.drain();
    return 0;
  } catch (thrown) {
    if (await reportToParent({ kind: 'failed', reason: reasonOf(thrown) })) return 1; // the parent says it, once for all
    throw thrown;
  }
}
