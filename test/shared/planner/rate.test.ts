import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { startPlanner, tick } from '../../../shared/planner/index.ts';
import { ObedientFleet, plannerOf, TICK_S } from '../../support/planner/obedient-fleet.ts';

describe('the rate law', () => {
  it('has what an eightfold step needs within three ticks, and says why', () => {
    const fleet = new ObedientFleet(plannerOf());
    expect(fleet.run({ rate: 8 }, 300)).toBe(1);
    expect(fleet.run({ rate: 64 }, 15)).toBe(6);
    expect(fleet.reason).toMatch(
      /^decode \d -> 6: \d+ requests\/s (begin|are expected).*, a worker serves 15: 6 needed$/,
    );
  });

  it('shrinks only to what was needed over two minutes', () => {
    const fleet = new ObedientFleet(plannerOf());
    fleet.run({ rate: 64 }, 300);
    expect(fleet.run({ rate: 8 }, 60)).toBe(6);
    expect(fleet.reason).toContain('no change: ');
    expect(fleet.reason).toContain('what was needed a short while ago is kept');
    expect(fleet.run({ rate: 8 }, 120)).toBe(1);
  });

  it('follows a ramp ahead of its arrivals, by as long as a worker takes to start', () => {
    const slow = new ObedientFleet(plannerOf({ start_seconds: 300 }));
    const quick = new ObedientFleet(plannerOf({ start_seconds: 5 }));
    for (let at = 0; at < 240; at++) {
      slow.step({ rate: 5 + at * 0.4 });
      quick.step({ rate: 5 + at * 0.4 });
    }
    expect(slow.ready).toBeGreaterThan(quick.ready);
  });

  it('holds still, and does not shrink, while no process that counts requests is heard', () => {
    const fleet = new ObedientFleet(plannerOf());
    fleet.run({ rate: 64 }, 120);
    expect(fleet.run({ rate: undefined }, 1800)).toBe(6);
    expect(fleet.reason).toContain('the demand is unknown');
  });

  it('goes to nothing after a long idle time where that is allowed, and wakes at the first held request', () => {
    const fleet = new ObedientFleet(plannerOf({ min_endpoint: 0, start_seconds: 60, idle_to_zero_seconds: 600 }));
    fleet.run({ rate: 8 }, 60);
    expect(fleet.run({ rate: 0 }, 590)).toBe(1);
    expect(fleet.run({ rate: 0 }, 30)).toBe(0);
    expect(fleet.step({ rate: 0, held: 1 })).toBe(1);
    expect(fleet.run({ rate: 0, held: 2000 }, 5)).toBe(3);
  });

  it('starts a first worker without a request, unless frontends hold the first one', () => {
    const config = { min_endpoint: 0, start_seconds: 60, idle_to_zero_seconds: 600 };
    expect(new ObedientFleet(plannerOf(config), 0).run({ rate: 0 }, 30)).toBe(1);
    const planner = plannerOf({ ...config, start_at_zero: true });
    const fleet = new ObedientFleet(planner, 0);
    expect(fleet.run({ rate: 0 }, 3600)).toBe(0);
    expect(fleet.step({ rate: 0, held: 1 })).toBe(1);
    expect(fleet.run({ rate: 0 }, 590)).toBe(1);
    expect(fleet.run({ rate: 0 }, 30)).toBe(0);
    // a machine that a person has started stays as long as any other
    const manual = new ObedientFleet(planner, 0);
    manual.run({ rate: 0 }, 60);
    manual.ready = 1;
    expect(manual.run({ rate: 0 }, 530)).toBe(1);
    expect(manual.run({ rate: 0 }, 30)).toBe(0);
    expect(new ObedientFleet(plannerOf({ start_at_zero: true, min_endpoint: 1 }), 0).run({ rate: 0 }, 30)).toBe(1);
  });

  it('keeps a worker while requests run, however long none begins', () => {
    const fleet = new ObedientFleet(plannerOf({ min_endpoint: 0, start_seconds: 60, idle_to_zero_seconds: 60 }));
    fleet.run({ rate: 8 }, 60);
    expect(fleet.run({ rate: 0, running: 1 }, 3600)).toBe(1);
  });

  it('starts a first worker for a held request though nothing is known of what one serves', () => {
    const planner = plannerOf({ rate_requests_per_second: null, min_endpoint: 0 });
    const fleet = new ObedientFleet(planner, 0);
    expect(fleet.step({ rate: 0, held: 3 })).toBe(1);
    expect(fleet.reason).toContain('nothing is known yet of what a worker serves');
  });

  it('replaces workers that are lost at once', () => {
    const fleet = new ObedientFleet(plannerOf());
    fleet.run({ rate: 64 }, 120);
    fleet.ready = 2;
    expect(fleet.step({ rate: 64 })).toBe(6);
  });

  it('expects less of engines that miss their targets, and comes back', () => {
    const planner = plannerOf();
    let state = startPlanner(0);
    const run = (itlMs: number, seconds: number, fromS: number): number => {
      let ready = 6;
      for (let nowS = fromS + TICK_S; nowS <= fromS + seconds; nowS += TICK_S) {
        const observed = { decode: { itlMs } };
        const input = { nowS, counts: { decode: { ready } }, started: 320, held: 0, running: 9, observed };
        const { state: next, effect } = tick(state, input, planner);
        state = next;
        ready = effect.targets?.decode ?? ready;
      }
      return ready;
    };
    expect(run(40, 300, 0)).toBe(6);
    expect(run(90, 600, 300)).toBeGreaterThan(7);
    expect(run(40, 4000, 900)).toBe(6);
  });
});

const anyStep = fc.record({
  rate: fc.option(fc.double({ min: 0, max: 500, noNaN: true }), { nil: undefined }),
  held: fc.nat(5000),
  running: fc.nat(100),
  backlog: fc.option(fc.record({ workers: fc.nat(40), requests: fc.nat(10_000) }), { nil: undefined }),
});

describe('whatever happens, the rate law', () => {
  it('stays within the GPU budget and above the minimum', () => {
    fc.assert(
      fc.property(
        fc.array(anyStep, { maxLength: 200 }),
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 4, max: 40 }),
        (steps, low, high) => {
          const fleet = new ObedientFleet(plannerOf({ min_endpoint: low, max_gpu_budget: high }), low);
          for (const step of steps) {
            fleet.step(step);
            expect(fleet.ready).toBeGreaterThanOrEqual(low);
            expect(fleet.ready).toBeLessThanOrEqual(high);
          }
        },
      ),
    );
  });

  it('does not oscillate on a constant load', () => {
    fc.assert(
      fc.property(fc.double({ min: 0.2, max: 200, noNaN: true }), (rate) => {
        const fleet = new ObedientFleet(plannerOf({ max_gpu_budget: 64 }));
        const settled = fleet.run({ rate }, 300);
        for (let at = 0; at < 240; at++) expect(fleet.step({ rate })).toBe(settled);
      }),
    );
  });

  it('never has fewer workers for more load', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(300), { minLength: 1, maxLength: 120 }),
        fc.integer({ min: 0, max: 100 }),
        (rates, more) => {
          const little = new ObedientFleet(plannerOf({ max_gpu_budget: 64, rate_deviations: 0 }));
          const much = new ObedientFleet(plannerOf({ max_gpu_budget: 64, rate_deviations: 0 }));
          // Without its forecast: a change point of one series need not be one of the other.
          for (const rate of rates.slice(0, 5))
            expect(much.step({ rate: rate + more })).toBeGreaterThanOrEqual(little.step({ rate }));
        },
      ),
    );
  });

  it('decides nothing twice: the same tick again changes nothing', () => {
    fc.assert(
      fc.property(fc.array(anyStep, { minLength: 1, maxLength: 60 }), (steps) => {
        const planner = plannerOf();
        const fleet = new ObedientFleet(planner);
        for (const step of steps) {
          fleet.step(step);
          const again = tick(fleet.state, fleet.input(step), planner);
          expect(again.state.rate).toEqual(fleet.state.rate);
          expect(again.effect.targets).toBeUndefined();
        }
      }),
    );
  });

  it('keeps a state that fits into 64 KiB of JSON', () => {
    const fleet = new ObedientFleet(
      plannerOf({
        scheduling: { scale_interval_seconds: 0.5 },
        rate_window_seconds: 120,
        rate_down_window_seconds: 7200,
      }),
    );
    for (let at = 0; at < 4000; at++) fleet.step({ rate: (at * 7919) % 400 });
    expect(JSON.stringify(fleet.state).length).toBeLessThan(65_536);
    expect(JSON.parse(JSON.stringify(fleet.state))).toEqual(fleet.state);
  });
});

describe('once the last worker has gone, the rate law', () => {
  it('starts none for a trend of the past', () => {
    const quick = {
      min_endpoint: 0,
      start_seconds: 1,
      idle_to_zero_seconds: 5,
      rate_window_seconds: 5,
      rate_down_window_seconds: 5,
    };
    const fleet = new ObedientFleet(plannerOf({ ...quick, rate_requests_per_second: 2 }));
    fleet.run({ rate: 40 }, 25);
    fleet.run({ rate: 0 }, 15);
    expect(fleet.ready).toBe(0);
    for (let at = 0; at < 60; at++) expect(fleet.step({ rate: 0 })).toBe(0);
  });
});
