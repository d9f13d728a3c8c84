import { constants } from 'node:os';
import { systemClock } from '../../shared/clock/index.ts';
import { watchNpm } from './npm-parent.ts';

const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
/** Ctrl-C reaches every process of the terminal, and npm hands the one that it got on to us: that is one wish, not two. */
const REPEAT_MS = 1000;

/**
 * Resolves with what ends the process: the name of the first SIGTERM, SIGINT or SIGHUP, or that the parent which holds an IPC
 * channel closed it or is gone, or that the npm which started it is gone. A signal later than that ends the process at once
 * with the exit code that shells expect.
 * @param interruptTaken from when it aborts SIGINT is somebody else's to hear: Ctrl-C means something other than the end
 */
export function stopSignal(interruptTaken?: AbortSignal): Promise<string> {
  return new Promise((resolve) => {
    let stoppedMs: number | undefined;
    const stop = (reason: string): void => {
      stoppedMs ??= systemClock.nowMs();
      resolve(reason);
    };
    const onSignal = (signal: NodeJS.Signals): void => {
      if (stoppedMs === undefined) stop(signal);
      else if (systemClock.nowMs() - stoppedMs > REPEAT_MS) process.exit(128 + constants.signals[signal]);
    };
    for (const signal of STOP_SIGNALS) process.on(signal, onSignal);
    interruptTaken?.addEventListener('abort', () => process.off('SIGINT', onSignal), { once: true });
    watchNpm(systemClock, () => stop('end of npm'));
    const onParentGone = (): void => stop('end of the parent channel');
    process.once('disconnect', onParentGone);
    if (process.connected === false) onParentGone(); // while this program was being loaded; undefined = never had one
    // Listening keeps the channel open, and an open channel the process alive: one that has drained must be free to end.
    process.channel?.unref();
  });
}
