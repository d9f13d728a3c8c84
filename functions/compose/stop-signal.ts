import { constants } from 'node:os';

/**
 * Resolves with what ends the process: the name of the first SIGTERM or SIGINT, or that the parent which holds an IPC
 * channel closed it or is gone. A signal after that ends the process at once with the exit code that shells expect.
 * @param interruptTaken from when it aborts SIGINT is somebody else's to hear: Ctrl-C means something other than the end
 */
export function stopSignal(interruptTaken?: AbortSignal): Promise<string> {
  return new Promise((resolve) => {
    let isStopping = false;
    const onSignal = (signal: NodeJS.Signals): void => {
      if (isStopping) process.exit(128 + constants.signals[signal]);
      isStopping = true;
      resolve(signal);
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
    interruptTaken?.addEventListener('abort', () => process.off('SIGINT', onSignal), { once: true });
    const onParentGone = (): void => {
      isStopping = true;
      resolve('end of the parent channel');
    };
    process.once('disconnect', onParentGone);
    if (process.connected === false) onParentGone(); // while this program was being loaded; undefined = never had one
    // Listening keeps the channel open, and an open channel the process alive: one that has drained must be free to end.
    process.channel?.unref();
  });
}
