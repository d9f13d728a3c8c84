import { constants } from 'node:os';

/**
 * Resolves with the name of the first SIGTERM or SIGINT, or when the parent that holds an IPC channel goes away. A second
 * signal ends the process at once with the exit code that shells expect.
 */
export function stopSignal(): Promise<string> {
  return new Promise((resolve) => {
    let isStopping = false;
    const onSignal = (signal: NodeJS.Signals): void => {
      if (isStopping) process.exit(128 + constants.signals[signal]);
      isStopping = true;
      resolve(signal);
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
    process.once('disconnect', () => {
      isStopping = true;
      resolve('parent gone');
    });
  });
}
