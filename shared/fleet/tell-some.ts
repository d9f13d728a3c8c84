import type { Clock } from '../clock/index.ts';

const AT_ONCE = 10;
const EACH_MS = 1000;

/**
 * Hands on ten at once and one a second after that, with how many were left out since the last: whoever can reach a plane can
 * send what cannot be read, as fast as it likes, and a line for each would cost more than reading it.
 */
export function tellSome(clock: Clock, tell: (problem: unknown, untold: number) => void): (problem: unknown) => void {
  let allowed = AT_ONCE;
  let fromMs = clock.nowMs();
  let untold = 0;
  return (problem) => {
    const nowMs = clock.nowMs();
    allowed = Math.min(AT_ONCE, allowed + (nowMs - fromMs) / EACH_MS);
    fromMs = nowMs;
    if (allowed < 1) {
      untold++;
      return;
    }
    allowed--;
    tell(problem, untold);
    untold = 0;
  };
}
