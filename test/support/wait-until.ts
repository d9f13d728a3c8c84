import { setTimeout as sleep } from 'node:timers/promises';

export interface WaitOptions {
  /** Time on a machine of its own: CI, where suites share the processors, has `BUSY` times as much. @default 10_000 */
  readonly timeoutMs?: number;
  /**
   * @default 10, and 40 after a while, because requests over HTTP take processor time from what the test waits for
   */
  readonly pollMs?: number;
  /** Description of the awaited state, for the error. */
  readonly what?: string;
}

const POLL_MS = 10;
const LATER_POLL_MS = 40;
const SOON_MS = 300;
/** How much longer a wait may take if the whole run shares a small machine. */
export const BUSY = process.env.CI === undefined ? 1 : 3;

/**
 * Polls until `probe` returns a value other than `false` or `undefined`, and resolves with it. Use it for real I/O
 * only: tests of code that takes a `Clock` use `VirtualClock`. Rejects after `timeoutMs` with the probe's last error as
 * cause.
 */
export async function waitUntil<T>(
  probe: () => T | Promise<T>,
  options: WaitOptions = {},
): Promise<Exclude<T, false | undefined>> {
  const { pollMs, what = probe.toString() } = options;
  const timeoutMs = BUSY * (options.timeoutMs ?? 10_000);
  const startedMs = performance.now();
  const deadlineMs = startedMs + timeoutMs;
  let cause: unknown;
  for (;;) {
    try {
      const value = await probe();
      if (value !== false && value !== undefined) return value as Exclude<T, false | undefined>;
      cause = undefined;
    } catch (error) {
      cause = error; // A probe may fail while the tested code still starts. The last failure is reported.
    }
    if (performance.now() > deadlineMs) throw new Error(`not within ${timeoutMs} ms: ${what}`, { cause });
    await sleep(pollMs ?? (performance.now() - startedMs < SOON_MS ? POLL_MS : LATER_POLL_MS));
  }
}
