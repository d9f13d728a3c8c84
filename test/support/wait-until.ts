import { setTimeout as sleep } from 'node:timers/promises';

export interface WaitOptions {
  /** @default 10_000 */
  readonly timeoutMs?: number;
  /** @default 10 */
  readonly pollMs?: number;
  /** What is awaited, for the error. */
  readonly what?: string;
}

/**
 * Polls until `probe` returns something other than `false` or `undefined` and resolves with it. For real I/O only: code
 * that takes a `Clock` is tested with `VirtualClock`. Rejects after `timeoutMs` with the probe's last error as cause.
 */
export async function waitUntil<T>(
  probe: () => T | Promise<T>,
  options: WaitOptions = {},
): Promise<Exclude<T, false | undefined>> {
  const { timeoutMs = 10_000, pollMs = 10, what = probe.toString() } = options;
  const deadlineMs = performance.now() + timeoutMs;
  let cause: unknown;
  for (;;) {
    try {
      const value = await probe();
      if (value !== false && value !== undefined) return value as Exclude<T, false | undefined>;
      cause = undefined;
    } catch (error) {
      cause = error; // a probe may fail while the thing under test is still starting; the last failure is reported
    }
    if (performance.now() > deadlineMs) throw new Error(`not within ${timeoutMs} ms: ${what}`, { cause });
    await sleep(pollMs);
  }
}
