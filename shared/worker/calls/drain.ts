import type { Clock } from '../../clock/index.ts';
import { forAtMost } from '../../concurrency/index.ts';
import { workerError } from '../../errors/index.ts';
import type { PlaneServer } from '../../planes/request/index.ts';
import type { CallsUnderWay } from './calls-under-way.ts';

/** How long the last frames of ended streams may take to leave. */
const FLUSH_LIMIT_MS = 1000;
const FLUSH_LOOK_MS = 10;

/** What became of the streams that were open when the drain began. */
export interface DrainReport {
  readonly finished: number;
  /** Failed so that another worker goes on with them. */
  readonly moved: number;
  /** Failed at the drain's limit because they could not move. */
  readonly failed: number;
}

/**
 * Lets streams under way end: all for the grace period, then those that cannot move to another worker up to
 * the limit, both counted from now.
 */
export async function drainCalls(
  calls: CallsUnderWay,
  clock: Clock,
  limits: { readonly graceMs: number; readonly drainLimitMs: number },
): Promise<DrainReport> {
  const error = workerError('EngineShutdown', 'the worker is shutting down');
  const open = calls.count;
  let moved = 0;
  let failed = 0;
  if (!(await forAtMost({ clock, timeoutMs: limits.graceMs }, () => calls.over()))) {
    moved = calls.breakOff(error, (call) => call.isMovable);
    const leftMs = Math.max(0, limits.drainLimitMs - limits.graceMs);
    if (!(await forAtMost({ clock, timeoutMs: leftMs }, () => calls.over()))) failed = calls.breakOff(error);
  }
  return { finished: open - moved - failed, moved, failed };
}

/** Waits until the plane has sent what ended streams still had, within a second. */
export async function flushStreams(server: PlaneServer, clock: Clock): Promise<void> {
  const untilMs = clock.nowMs() + FLUSH_LIMIT_MS;
  do await clock.sleep(FLUSH_LOOK_MS);
  while (server.activeStreams > 0 && clock.nowMs() < untilMs);
}
