/** Pause between starting two of `count` mock workers, from `--stagger-delay`. */
export function staggerDelayMs(delaySecs: number, count: number): number {
  if (delaySecs >= 0) return delaySecs * 1000;
  if (count > 128) return 200;
  return count >= 32 ? 100 : 0;
}
