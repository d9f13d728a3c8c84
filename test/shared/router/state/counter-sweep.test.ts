import { describe, expect, it } from 'vitest';
import { seededRandom, VirtualClock } from '../../../../shared/clock/index.ts';
import { CounterSweep, MemoryRouterStateHub, NO_LOAD } from '../../../../shared/router/state/index.ts';

const never = new AbortController().signal;
const pool = { namespace: 'ns', component: 'backend', endpoint: 'generate' };

/** A sweeper of one pool; `alive` workers report every 5 s of virtual time, the others have died. */
function setUp(workers: number) {
  const clock = new VirtualClock();
  const hub = new MemoryRouterStateHub(clock);
  const state = hub.open();
  const alive = new Set<number>(Array.from({ length: workers }, (_, at) => at));
  let number = 0;
  const report = (): void => {
    number++;
    for (const at of alive) {
      const rank = { workerId: at.toString(16), dpRank: 0 };
      void state.report(pool, { rank, number, active: NO_LOAD, acked: NO_LOAD, kvUsedBlocks: 0 }, never);
    }
  };
  report();
  clock.every(5000, report);
  const lease: { fence: number | undefined } = { fence: 1 };
  const swept: number[] = [];
  const problems: unknown[] = [];
  const sweep = new CounterSweep({
    ...{ state, pool, lease, clock, random: seededRandom(1) },
    onSwept: (ranks) => swept.push(ranks),
    onProblem: (problem) => problems.push(problem),
  });
  const ranks = async () => (await state.loads(pool, never)).length;
  return { clock, hub, alive, lease, swept, problems, sweep, ranks };
}

describe('the sweep of counters', () => {
  it('forgets workers that were silent for a minute, and leaves those that report', async () => {
    const { clock, alive, swept, problems, sweep, ranks } = setUp(5);
    sweep.start();
    await clock.advance(300_000);
    expect(await ranks()).toBe(5);
    alive.delete(1);
    alive.delete(3);
    await clock.advance(50_000);
    expect(await ranks()).toBe(5);
    await clock.advance(90_000);
    expect(await ranks()).toBe(3);
    expect([swept, problems]).toEqual([[2], []]);
    await sweep.stop();
    alive.clear();
    await clock.advance(300_000);
    expect(await ranks()).toBe(3);
  });

  it('is the business of the holder of the lease', async () => {
    const { clock, alive, lease, sweep, ranks } = setUp(2);
    lease.fence = undefined;
    sweep.start();
    alive.clear();
    await clock.advance(300_000);
    expect(await ranks()).toBe(2);
    lease.fence = 7;
    await clock.advance(70_000);
    expect(await ranks()).toBe(0);
    await sweep.stop();
  });

  it('takes the end of a large fleet in rounds', async () => {
    const { clock, alive, swept, sweep, ranks } = setUp(250);
    sweep.start();
    alive.clear();
    await clock.advance(400_000);
    expect(await ranks()).toBe(0);
    expect(swept).toEqual([100, 100, 50]);
    await sweep.stop();
  });
});
