import { readdirSync, readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';

const shared = { testTimeout: 20_000, hookTimeout: 60_000, pool: 'forks' } as const;

const rooms = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.test.ts') && !file.startsWith('e2e'))
  .map((file) => `test/${file}`);
/** They count what V8 executes, which depends on what else it has compiled: each has a process of its own. */
const countingSteps = rooms.filter((file) => readFileSync(file, 'utf8').includes('/count-steps.ts'));

export default defineConfig({
  test: {
    globalSetup: ['test/support/global-setup.ts'],
    projects: [
      {
        // They share processes, as loading the sources anew costs more than most of them do.
        test: {
          ...shared,
          name: 'rooms',
          isolate: false,
          include: ['test/**/*.test.ts'],
          exclude: ['test/e2e/**', ...countingSteps],
          maxWorkers: 3,
          sequence: { groupOrder: 0 },
        },
      },
      { test: { ...shared, name: 'steps', include: countingSteps, maxWorkers: 3, sequence: { groupOrder: 0 } } },
      {
        // Each starts several processes, kills some and watches the others: mostly it waits.
        test: {
          ...shared,
          name: 'e2e',
          testTimeout: 60_000, // several processes start in one test, each of which a busy machine may keep waiting
          include: ['test/e2e/**/*.test.ts'],
          maxWorkers: 4,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
