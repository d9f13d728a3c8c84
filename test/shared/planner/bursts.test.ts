import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ObedientFleet, plannerOf } from '../../support/planner/obedient-fleet.ts';

const QUIET = { rate: 16 };
const BURST = { rate: 64 };
const SMOOTH = { rate_deviations: 0, rate_target_load: 1, rate_down_window_seconds: 30 };

/** Ten quiet minutes, and bursts of 90 s of so many requests a second, so long after the one before; ends with the last of them. */
function bursting(
  bursts: readonly { readonly gap?: number; readonly rate?: number }[],
  settings: object = {},
): ObedientFleet {
  const fleet = new ObedientFleet(plannerOf({ ...SMOOTH, ...settings }));
  fleet.run(QUIET, 600);
  for (const [at, { gap = 900, rate = BURST.rate }] of bursts.entries()) {
    if (at > 0) fleet.run(QUIET, gap - 90);
    fleet.run({ rate }, 90);
  }
  return fleet;
}

/** The same burst every quarter of an hour, so many times. */
function withBursts(times: number, settings: object = {}): ObedientFleet {
  return bursting(
    Array.from({ length: times }, () => ({})),
    settings,
  );
}

describe('bursts that are over before a worker has started', () => {
  it('are awaited after the first one, for as long as is set', () => {
    const fleet = withBursts(1);
    expect(fleet.run(QUIET, 600)).toBe(5);
    expect(fleet.reason).toMatch(/a burst of 6\d requests\/s may come \(16 now\), a worker serves 15: 5 needed/);
    expect(fleet.run(QUIET, 400)).toBe(2);
    expect(withBursts(1, { rate_surge_hold_seconds: 300 }).run(QUIET, 360)).toBe(2);
  });

  it('have their workers when they come again as they did, and none of them between', () => {
    const fleet = withBursts(2);
    expect(fleet.run(QUIET, 300)).toBe(2);
    expect(fleet.run(QUIET, 230)).toBe(2);
    expect(fleet.run(QUIET, 30)).toBe(5); // a start and a tenth of the gap before the third one
    expect(fleet.run(QUIET, 250)).toBe(5);
    expect(fleet.run(BURST, 90)).toBe(5);
    expect(fleet.run(QUIET, 120)).toBe(2);
  });

  it('have none after the first one if none should be kept, and theirs from then on', () => {
    const unkept = { rate_surge_hold_seconds: 0 };
    expect(withBursts(1, unkept).run(QUIET, 60)).toBe(2);
    expect(withBursts(2, unkept).run(QUIET, 560)).toBe(5);
  });

  it('are not waited for where that takes more work from the workers than a request in time is worth', () => {
    // 8640 requests in time, of a burst and a start, for 270 s in which 48 a second could be served
    expect(withBursts(3, { rate_surge_worth: 1.4 }).run(QUIET, 800)).toBe(2);
    expect(withBursts(3, { rate_surge_worth: 1.6 }).run(QUIET, 800)).toBe(5);
  });

  it('have workers for the height that is worth it: not always the highest', () => {
    const heights = [48, 80, 48, 48].map((rate) => ({ rate }));
    expect(bursting(heights, { rate_surge_worth: 2 }).run(QUIET, 800)).toBe(4);
    expect(bursting(heights).run(QUIET, 800)).toBe(6);
  });

  it('that come after long and short gaps are waited for at both, or at the one that is worth it', () => {
    const saving = { rate_surge_worth: 5 };
    const once = [{}, { gap: 400 }, { gap: 1600 }];
    const late = bursting(once, saving);
    expect(late.run(QUIET, 300)).toBe(2);
    expect(late.run(QUIET, 1200)).toBe(5);
    expect(bursting(once).run(QUIET, 300)).toBe(5);
    const early = bursting([...once, { gap: 400 }], saving);
    expect(early.run(QUIET, 300)).toBe(5);
    expect(early.run(QUIET, 1200)).toBe(2);
  });

  it('that stay away are awaited no longer than the longest gap, and a tenth', () => {
    const fleet = withBursts(2);
    expect(fleet.run(QUIET, 800)).toBe(5);
    expect(fleet.run(QUIET, 200)).toBe(2);
  });

  it('whose gaps differ are awaited sooner and longer than those that were seen, the more the fewer there were', () => {
    const uneven = [{}, { gap: 700 }, { gap: 900 }];
    const fleet = bursting(uneven, { rate_surge_worth: 30 });
    expect(fleet.run(QUIET, 160)).toBe(2);
    expect(fleet.run(QUIET, 120)).toBe(5); // 370 s after the last one, and the shortest gap was 700
    expect(fleet.run(QUIET, 820)).toBe(5); // 1,190 s, and the longest was 900
    expect(fleet.run(QUIET, 300)).toBe(2);
    const even = bursting([{}, { gap: 800 }, { gap: 800 }], { rate_surge_worth: 30 });
    expect(even.run(QUIET, 380)).toBe(2);
  });

  it('are awaited for longer than a tenth where more than one gap was seen, as long as was settled after the last one', () => {
    expect(withBursts(3).run(QUIET, 1090)).toBe(5);
    expect(withBursts(3).run(QUIET, 1300)).toBe(2);
    // Of 10 requests a second between bursts such a wait is not worth it.
    expect(withBursts(3, { rate_surge_worth: 1.6 }).run({ rate: 10 }, 800)).toBe(5);
  });

  it('whose heights differ are awaited higher than the highest where that is worth it', () => {
    const heights = [32, 62, 32].map((rate) => ({ rate }));
    expect(bursting(heights, { rate_surge_worth: 1000 }).run(QUIET, 800)).toBe(6);
    expect(bursting(heights, { rate_surge_worth: 5 }).run(QUIET, 800)).toBe(5);
  });

  it('keep the workers that waited for them until they are over, however late they come', () => {
    const fleet = withBursts(2);
    fleet.run(QUIET, 890); // ten seconds before none would wait any more
    expect(fleet.run(BURST, 85)).toBe(5);
    expect(fleet.run(QUIET, 120)).toBe(2);
  });

  it('that come before those that wait for them serve call these off', () => {
    const fleet = withBursts(2);
    fleet.run(QUIET, 560); // 20 s after they began to start
    expect(fleet.ready).toBe(5);
    expect(fleet.run(BURST, 60)).toBe(2);
  });

  it('are not run after once they are known, but for one that lasts longer than those before', () => {
    const fleet = withBursts(2);
    fleet.run(QUIET, 300); // too early for the third one
    expect(fleet.run(BURST, 90)).toBe(2);
    expect(fleet.reason).toContain('64 requests/s begin, a burst that will be over before a worker serves');
    expect(fleet.run(BURST, 60)).toBe(5);
  });

  it('are forgotten where that is asked for', () => {
    const fleet = withBursts(2, { rate_surge_worth: 0 });
    expect(fleet.ready).toBe(5);
    expect(fleet.run(QUIET, 60)).toBe(2);
    expect(fleet.run(QUIET, 800)).toBe(2);
  });

  it('differ from a load that stays: what lasts for two starts is not awaited', () => {
    const fleet = new ObedientFleet(plannerOf(SMOOTH));
    fleet.run(QUIET, 600);
    expect(fleet.run(BURST, 420)).toBe(5);
    expect(fleet.run(QUIET, 60)).toBe(2);
  });

  it('wake a fleet that sleeps between them before they come', () => {
    const settings = { min_endpoint: 0, start_seconds: 60, idle_to_zero_seconds: 300, rate_surge_hold_seconds: 300 };
    const fleet = new ObedientFleet(plannerOf({ ...SMOOTH, ...settings }));
    for (let hour = 0; hour < 3; hour++) {
      fleet.run({ rate: 0 }, hour === 0 ? 600 : 1745);
      fleet.run({ rate: 30 }, 55);
    }
    expect(fleet.run({ rate: 0 }, 900)).toBe(0);
    expect(fleet.run({ rate: 0 }, 800)).toBe(2);
  });

  it('stay within the budget and above the minimum, whatever they are like', () => {
    const anyBurst = fc.record({
      quiet: fc.integer({ min: 0, max: 900 }),
      lasts: fc.integer({ min: 5, max: 500 }),
      rate: fc.nat(400),
    });
    fc.assert(
      fc.property(fc.array(anyBurst, { maxLength: 12 }), fc.integer({ min: 1, max: 3 }), (bursts, low) => {
        const fleet = new ObedientFleet(plannerOf({ min_endpoint: low, max_gpu_budget: 12 }), low);
        for (const { quiet, lasts, rate } of bursts) {
          for (const [step, seconds] of [[QUIET, quiet] as const, [{ rate }, lasts] as const]) {
            const ready = fleet.run(step, seconds);
            expect(ready).toBeGreaterThanOrEqual(low);
            expect(ready).toBeLessThanOrEqual(12);
          }
        }
        expect(fleet.state.rate.surges?.past.length ?? 0).toBeLessThanOrEqual(8);
        // Whatever was, a load that stays has what it needs, and no more once what was awaited has not come.
        fleet.run(QUIET, 12_000);
        expect(fleet.ready).toBe(Math.max(2, low));
      }),
      { numRuns: 10 },
    );
  });
});

describe('workers that are far behind', () => {
  const FULL = { ...SMOOTH, rate_target_load: 1.2, rate_surge_worth: 0 };
  const behind = { rate: 16, backlog: { workers: 1, requests: 3000 } };

  it('do not count when they will not have caught up before a new one serves, and the reason says so', () => {
    const fleet = new ObedientFleet(plannerOf(FULL));
    expect(fleet.run({ rate: 16 }, 60)).toBe(1);
    expect(fleet.step(behind)).toBe(2);
    expect(fleet.reason).toContain('a worker serves 15 and 1 will not have caught up: 2 needed');
    expect(fleet.run({ rate: 16 }, 60)).toBe(1);
  });

  it('count where those that are needed anyway catch up sooner', () => {
    const fleet = new ObedientFleet(plannerOf({ ...FULL, rate_target_load: 1 }));
    expect(fleet.run({ rate: 16 }, 60)).toBe(2);
    // 14 a second to spare: 2520 while a worker starts.
    expect(fleet.step({ rate: 16, backlog: { workers: 2, requests: 2400 } })).toBe(2);
    expect(fleet.step({ rate: 16, backlog: { workers: 2, requests: 2700 } })).toBe(4);
  });
});

describe('with an up window', () => {
  it('only what lasts as long is grown for, and what waits for a worker at once', () => {
    const fleet = new ObedientFleet(plannerOf({ ...SMOOTH, rate_surge_worth: 0, rate_up_window_seconds: 120 }));
    expect(fleet.run({ rate: 12 }, 300)).toBe(1);
    expect(fleet.run(BURST, 90)).toBe(1);
    expect(fleet.reason).toContain('64 requests/s begin, 12 for as long as counts');
    expect(fleet.run({ rate: 12 }, 60)).toBe(1);
    expect(fleet.run(BURST, 150)).toBe(5);
    expect(fleet.step({ ...BURST, held: 1200 })).toBe(6);
  });
});
