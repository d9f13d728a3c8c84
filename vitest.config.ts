import { defineConfig } from 'vitest/config';

const shared = { testTimeout: 20_000, hookTimeout: 60_000, pool: 'forks' } as const;

export default defineConfig({
  test: {
    globalSetup: ['test/support/global-setup.ts'],
    projects: [
      {
        test: {
          ...shared,
          name: 'rooms',
          include: ['test/**/*.test.ts'],
          exclude: ['test/e2e/**'],
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        // Each starts several processes, kills some and watches the others: mostly it waits.
        test: {
          ...shared,
          name: 'e2e',
          testTimeout: 60_000, // several processes start in one test, each of which a busy machine may keep waiting
          include: ['test/e2e/**/*.test.ts'],
          maxWorkers: 3,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
