import type { Clock, Timer } from '../../clock/index.ts';
import type { Counter, Histogram } from './series.ts';

const PERIOD_MS = 10;
const STALL_MS = 5;

/** Ends a watch. Idempotent. */
export interface EventLoopWatch {
  stop(): void;
}

/**
 * Sleeps 10 ms at a time and counts how late each wake-up is: over 5 ms is a stall. The timer does not keep the process
 * alive. A function, whose process is frozen between requests, must not watch: each thaw would read as a stall.
 */
export function watchEventLoop(clock: Clock, delaySeconds: Histogram, stalls: Counter): EventLoopWatch {
  let armedMs = 0;
  let timer: Timer;
  function arm(): void {
    armedMs = clock.nowMs();
    timer = clock.after(PERIOD_MS, measure);
  }
  function measure(): void {
    const lateMs = Math.max(0, clock.nowMs() - armedMs - PERIOD_MS);
    delaySeconds.observe(lateMs / 1000);
    if (lateMs > STALL_MS) stalls.add();
    arm();
  }
  arm();
  return { stop: () => timer.cancel() };
}
