import type { Clock, Timer } from '../../clock/index.ts';
import type { Counter, Histogram, MetricRegistry } from './registry.ts';

const DELAY_SECONDS = [0, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];
const PERIOD_MS = 10;
const STALL_MS = 5;

/** Counts delays of the event loop, once it is watched. */
export function createEventLoopMetrics(registry: MetricRegistry, clock: Clock) {
  const { counter, histogram } = registry.under('dynamo_frontend_');
  const delay = histogram('event_loop_delay_seconds', 'How late a timer of 10 ms fired.', DELAY_SECONDS).with();
  const stalls = counter('event_loop_stall_total', 'Timers of 10 ms that fired over 5 ms late.').with();
  return {
    /** Starts to measure delays of the event loop. Not for functions. */
    watchEventLoop: () => watchEventLoop(clock, delay, stalls),
  };
}

/** Ends a watch. Idempotent. */
export interface EventLoopWatch {
  stop(): void;
}

/**
 * Sleeps 10 ms at a time and counts how late each wake-up is: over 5 ms is a stall. The timer does not keep the process
 * alive. A function, whose process is frozen between requests, must not watch: each thaw would read as a stall.
 */
function watchEventLoop(clock: Clock, delaySeconds: Histogram, stalls: Counter): EventLoopWatch {
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
