import type { Discovery } from '../../../shared/discovery/index.ts';
import { FreezableClock } from '../../support/index.ts';

interface HandleOptions {
  readonly ttlMs: number;
  readonly clock: FreezableClock;
  readonly onProblem: (problem: Error) => void;
}

/** Opens handles, each as a process of its own with a clock that a test can freeze, and closes them all. */
export function openedHandles(openOne: (options: HandleOptions) => Promise<Discovery>) {
  const opened: Discovery[] = [];
  return {
    async open(ttlMs = 10_000, wallOffsetMs = 0) {
      const clock = new FreezableClock(undefined, wallOffsetMs);
      const problems: Error[] = [];
      const discovery = await openOne({ ttlMs, clock, onProblem: (problem) => problems.push(problem) });
      opened.push(discovery);
      return { discovery, clock, problems };
    },
    closeAll: async (): Promise<void> => {
      await Promise.all(opened.map((discovery) => discovery.close()));
    },
  };
}
