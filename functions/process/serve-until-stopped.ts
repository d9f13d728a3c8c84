import { stopSignal } from './stop-signal.ts';

/** What serves and can be drained. */
interface Drainable {
  drain(): Promise<void>;
}

/**
 * The life of a worker process: starts, and hands over to `serve` once it has; told to stop before that, it gives up and
 * cleans up what had started. Resolves with the exit code.
 * @param serve is given what serves and what ends the process, and drains
 */
export async function serveUntilStopped<Running extends Drainable>(
  start: (signal: AbortSignal) => Promise<Running>,
  serve: (running: Running, stopped: Promise<string>) => Promise<number>,
): Promise<number> {
  const stopped = stopSignal();
  const starting = new AbortController();
  const ready = start(starting.signal);
  const first = await Promise.race([ready, stopped]);
  if (typeof first !== 'string') return serve(first, stopped);
  starting.abort(new Error(first));
  await ready.then((running) => running.drain()).catch(() => undefined);
  return 0;
}
