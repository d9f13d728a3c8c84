import { describe, expect, it } from 'vitest';
import type { PlannerStore } from '../../../../shared/planner/index.ts';
import { NO_TRAFFIC } from '../../../../shared/protocol/index.ts';
import { countSteps } from '../../../support/count-steps.ts';
import { fleetPlannerBed } from '../../../support/planner/fleet-planner-bed.ts';
import { BEGIN_S, rollupOf } from '../../../support/planner/fleet-signals.ts';

const ROUNDS = 3;
const ROUND_MS = 5000;
const NEVER = new AbortController().signal;

/** Counts the calls of a store by their names. */
function countCalls(store: PlannerStore): Map<string, number> {
  const calls = new Map<string, number>();
  for (const name of ['readState', 'commit', 'decisions', 'decision', 'ticks', 'move', 'acknowledge'] as const) {
    const call = store[name].bind(store) as (...args: unknown[]) => unknown;
    const counted = (...args: unknown[]): unknown => {
      calls.set(name, (calls.get(name) ?? 0) + 1);
      return call(...args);
    };
    Object.assign(store, { [name]: counted });
  }
  return calls;
}

interface Cost {
  /** Of the planner's own code, see `countSteps`: what workers say, and the ticks. */
  readonly steps: number;
  readonly calls: Readonly<Record<string, number>>;
  /** What is written with a tick, and read with the next one. */
  readonly stateBytes: number;
}

/** What a fleet of `workers` costs its planner over a few ticks, once all have been heard. */
async function costOf(workers: number): Promise<Cost> {
  const bed = fleetPlannerBed({ config: { max_gpu_budget: -1 } });
  const { planner, store, pass } = bed;
  bed.workers.ready = workers;
  const say = async (round: number): Promise<void> => {
    const atMs = 1000 * BEGIN_S + round * ROUND_MS;
    const totals = { ...NO_TRAFFIC, started: round * 40 };
    for (let worker = 0; worker < workers; worker++) planner.hear(rollupOf(worker, round, totals, atMs));
    await pass(ROUND_MS);
  };
  const ended = planner.run();
  await say(0);
  const calls = countCalls(store);
  const steps = await countSteps(async () => {
    for (let round = 1; round <= ROUNDS; round++) await say(round);
  });
  const counted = Object.fromEntries(calls);
  expect(bed.lines.filter(({ level }) => level === 'warn')).toEqual([]);
  const state = await store.readState(planner.group ?? '', NEVER);
  await planner.close();
  await ended;
  return { steps, calls: counted, stateBytes: state?.state.length ?? 0 };
}

describe('what the ticks of a planner cost', () => {
  it('is as many reads and writes for 10,000 workers as for ten, and steps and bytes in proportion', async () => {
    await costOf(10); // what is done once a process does not count
    const [ten, thousand, tenThousand] = [await costOf(10), await costOf(1000), await costOf(10_000)];
    expect(thousand.calls).toEqual(ten.calls);
    expect(tenThousand.calls).toEqual(ten.calls);
    expect(ten.calls).toMatchObject({ readState: ROUNDS, commit: ROUNDS });
    expect(thousand.steps / ten.steps).toBeLessThan(100);
    expect(tenThousand.steps / thousand.steps).toBeLessThan(12);
    expect(tenThousand.stateBytes).toBeLessThan(6 * 10_000 + 8192);
  }, 60_000);
});
