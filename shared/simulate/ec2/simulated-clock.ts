import type { Clock } from '../../clock/index.ts';

/**
 * Returns a clock that shows virtual time. Its timers never fire: they are deadlines of calls, and a simulated call
 * takes no time.
 */
export function simulatedClock(time: { readonly nowMs: number }, beginsAtMs: number): Clock {
  const never = { cancel: () => {} };
  return {
    nowMs: () => time.nowMs,
    wallMs: () => Math.floor(beginsAtMs + time.nowMs),
    after: () => never,
    every: () => never,
    sleep: () => Promise.reject(new Error('a simulated clock cannot wait')),
  };
}
