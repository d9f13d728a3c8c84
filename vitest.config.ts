import { readdirSync, readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { BUSY } from './test/support/wait-until.ts';

const OWN_STATE = 'test/support/own-state.ts';
const shared = {
  testTimeout: 30_000 * BUSY,
  hookTimeout: 60_000 * BUSY,
  pool: 'forks' as const,
  setupFiles: [OWN_STATE],
};

/**
 * Files that take longest, the longest first: begun last, one would run alone at the end. A clean clone has no times to
 * go by.
 */
const LONGEST = [
  'test/e2e/docs.test.ts',
  'test/e2e/console.test.ts',
  'test/e2e/aws-rehearsal.test.ts',
  'test/e2e/faults/chaos.test.ts',
  'test/e2e/faults/worker-faults.test.ts',
  'test/e2e/faults/split-worker-faults.test.ts',
  'test/e2e/aws-production.test.ts',
  'test/e2e/package.test.ts',
  'test/e2e/local-planner.test.ts',
  'test/e2e/planner.test.ts',
  'test/e2e/fuzz.test.ts',
  'test/e2e/kill.test.ts',
  'test/e2e/local.test.ts',
  'test/e2e/disaggregation.test.ts',
  'test/e2e/faults/transfer-faults.test.ts',
  'test/e2e/lambda-frontend.test.ts',
  'test/e2e/lambda-resident.test.ts',
  'test/e2e/faults.test.ts',
  'test/e2e/processes.test.ts',
  'test/e2e/faults/split-outer-faults.test.ts',
  'test/e2e/api-keys.test.ts',
  'test/e2e/faults/outer-faults.test.ts',
  'test/e2e/bad-input.test.ts',
  'test/e2e/shared-state.test.ts',
  'test/e2e/two-machines.test.ts',
  'test/e2e/commands.test.ts',
  'test/e2e/resident-router.test.ts',
  'test/e2e/fuzz-sessions.test.ts',
  // Of the rooms', those that wait and those that compute by turns.
  'test/shared/discovery/dynamodb-discovery.test.ts',
  'test/shared/discovery/fleet-costs.test.ts',
  'test/shared/frontends/conformance.test.ts',
  'test/contract/discovery/dynamodb.test.ts',
  'test/infra/production-stacks.test.ts',
  'test/contract/discovery/file.test.ts',
  'test/shared/simulate/simulate.test.ts',
  'test/contract/discovery/dynamodb-function.test.ts',
  'test/functions/cli/main.test.ts',
];

/**
 * Files that only compute, the longest first. They run beside the suites of processes, which mostly wait, and take what
 * those leave of the processors. Run on their own, they would hold the processors while nothing waits.
 */
const COMPUTING = [
  'test/shared/simulate/reference-runs.test.ts',
  'test/shared/block-index/model.test.ts',
  'test/shared/protocol/kserve/infer-codec.test.ts',
  'test/shared/block-index/memory-bound.test.ts',
  'test/faults/matrix.test.ts',
  'test/infra/lint.test.ts',
  'test/repository/one-guess.test.ts',
  'test/shared/frontends/body-fields.test.ts',
  'test/shared/simulate/stateless.test.ts',
  'test/shared/parsers/tool-calls/fixtures.test.ts',
  'test/shared/simulate/scaling.test.ts',
  'test/infra/synth.test.ts',
  'test/shared/planner/decide/decide.test.ts',
  'test/shared/worker-events/rank-follower.test.ts',
];

/**
 * Files that play hours of a fleet in a minute, whose processes must keep up with each other. They run when the others
 * have ended.
 */
const KEEPING_TIME = ['test/e2e/planner-story.test.ts', 'test/e2e/wake-function.test.ts'];

class LongestFirst extends BaseSequencer {
  override async sort(specs: TestSpecification[]): Promise<TestSpecification[]> {
    const order = [...LONGEST, ...COMPUTING];
    const placeOf = ({ moduleId }: TestSpecification): number => {
      const place = order.findIndex((name) => moduleId.endsWith(name));
      return place < 0 ? order.length : place;
    };
    const sorted = (await super.sort(specs)).sort((a, b) => placeOf(a) - placeOf(b));
    const of = (...names: readonly string[]) => sorted.filter(({ project: { name } }) => names.includes(name));
    // Each of `steps` has its own process. Between the rooms they would end processes that have the sources loaded.
    return [...of('rooms'), ...of('steps'), ...spread(of('computing'), of('e2e')), ...of('keeping time')];
  }
}

/** Puts `few` among `many` at equal distances, the first one first. */
function spread<T>(few: readonly T[], many: readonly T[]): T[] {
  const places = [
    ...few.map((each, at) => [each, at / few.length] as const),
    ...many.map((each, at) => [each, at / many.length] as const),
  ];
  return places.sort(([, a], [, b]) => a - b).map(([each]) => each);
}

/**
 * Settings of files that compute. They make garbage faster than V8 expects, which collects a larger young generation a
 * quarter as often.
 */
const COMPUTES = { execArgv: ['--max-semi-space-size=64'] };

/** Bounds of the suites of processes, of which four run at a time: five starve each other. */
const BESIDE = { maxWorkers: 5, sequence: { groupOrder: 1 } } as const;

const rooms = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.test.ts') && !file.startsWith('e2e'))
  .map((file) => `test/${file}`);
/** They count what V8 executes, which depends on what else it has compiled: each has a process of its own. */
const countingSteps = rooms.filter((file) => readFileSync(file, 'utf8').includes('/count-steps.ts'));

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    globalSetup: ['test/support/global-setup.ts'],
    projects: [
      {
        // They share processes, as loading the sources anew costs more than most of them do.
        test: {
          ...shared,
          ...COMPUTES,
          name: 'rooms',
          isolate: false,
          include: ['test/**/*.test.ts'],
          exclude: ['test/e2e/**', ...countingSteps, ...COMPUTING],
          maxWorkers: 3,
          sequence: { groupOrder: 0 },
        },
      },
      { test: { ...shared, name: 'steps', include: countingSteps, maxWorkers: 3, sequence: { groupOrder: 0 } } },
      {
        // Each starts several processes, kills some and watches the others: mostly it waits. All load the same sources.
        test: {
          ...shared,
          name: 'e2e',
          isolate: false,
          testTimeout: 60_000 * BUSY, // a test starts several processes, each of which a busy machine may keep waiting
          include: ['test/e2e/**/*.test.ts'],
          exclude: KEEPING_TIME,
          ...BESIDE,
        },
      },
      {
        test: {
          ...shared,
          name: 'keeping time',
          include: KEEPING_TIME,
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
      {
        test: {
          ...shared,
          ...COMPUTES,
          name: 'computing',
          include: COMPUTING,
          testTimeout: 400_000, // they wait for their turn
          setupFiles: [OWN_STATE, 'test/support/behind-others.ts'],
          ...BESIDE,
        },
      },
    ],
  },
});
