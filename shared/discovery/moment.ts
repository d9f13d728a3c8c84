import type { Clock } from '../clock/index.ts';

/**
 * A point in time on both clocks. The monotonic one may stand still while a machine is suspended, the wall clock may be set:
 * an age that must not be taken for smaller than it is needs both.
 */
export interface Moment {
  readonly nowMs: number;
  readonly wallMs: number;
}

export function momentOf(clock: Clock): Moment {
  return { nowMs: clock.nowMs(), wallMs: clock.wallMs() };
}

/** Milliseconds since `moment`, by the clock that saw more of them pass. */
export function ageMs(moment: Moment, clock: Clock): number {
  return Math.max(clock.nowMs() - moment.nowMs, clock.wallMs() - moment.wallMs);
}
