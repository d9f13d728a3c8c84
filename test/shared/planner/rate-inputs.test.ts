import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Planner, type PlannerInput, startPlanner, tick } from '../../../shared/planner/index.ts';
import { ObedientFleet, plannerOf, TICK_S } from '../../support/planner/obedient-fleet.ts';

describe('the rate law of two pools', () => {
  const settings = { mode: 'disagg', rate_requests_per_second: null, max_gpu_budget: 64 };
  const planner = plannerOf({
    ...settings,
    rate_prefill_requests_per_second: 20,
    rate_decode_requests_per_second: 5,
  });

  function run(rate: number, held = 0, of: Planner = planner) {
    let state = startPlanner(0);
    let counts = { prefill: { ready: 1 }, decode: { ready: 1 } };
    for (let nowS = TICK_S; nowS <= 120; nowS += TICK_S) {
      const input = { nowS, counts, started: rate * TICK_S, held, running: 0 };
      const { state: next, effect } = tick(state, input, of);
      state = next;
      counts = { prefill: { ready: effect.targets?.prefill ?? 1 }, decode: { ready: effect.targets?.decode ?? 1 } };
    }
    return [counts.prefill.ready, counts.decode.ready];
  }

  it('sizes each for what its own workers serve', () => {
    expect(run(34)).toEqual([3, 9]);
  });

  it('divides a budget in proportion', () => {
    const [prefill, decode] = run(34, 0, { ...planner, config: { ...planner.config, maxGpuBudget: 8 } });
    expect(prefill! + decode!).toBeLessThanOrEqual(8);
    expect(decode!).toBeGreaterThan(2 * prefill!);
  });

  it('wakes both for a held request', () => {
    const asleep = { ...planner, config: { ...planner.config, min_endpoint: 0 } };
    const { effect } = tick(
      startPlanner(0),
      { nowS: 5, counts: { prefill: { ready: 0 }, decode: { ready: 0 } }, started: 0, held: 1, running: 0 },
      asleep,
    );
    expect(effect.targets).toEqual({ prefill: 1, decode: 1 });
  });
});

describe('the rate law that knows the days', () => {
  it('has what the last days had at this time, once three have passed, before the requests come', () => {
    const fleet = new ObedientFleet(plannerOf({ rate_seasonal: true, load_adjustment_interval_seconds: 60 }));
    const daily = (atS: number) => (atS % 86_400 >= 36_000 && atS % 86_400 < 43_200 ? 60 : 2);
    const step = (): number => {
      fleet.nowS += 60;
      const started = daily(fleet.nowS - 60) * 60;
      const input = { nowS: fleet.nowS, counts: { decode: { ready: fleet.ready } }, started, held: 0, running: 1 };
      const { state, effect } = tick(fleet.state, input, planner);
      fleet.state = state;
      fleet.ready = effect.targets?.decode ?? fleet.ready;
      return fleet.ready;
    };
    const planner = plannerOf({ rate_seasonal: true, load_adjustment_interval_seconds: 60, start_seconds: 600 });
    const before: number[] = [];
    for (let day = 0; day < 5; day++) {
      while (fleet.nowS < day * 86_400 + 36_000) step();
      before.push(fleet.ready);
      while (fleet.nowS < (day + 1) * 86_400) step();
    }
    expect(before).toEqual([1, 1, 1, 5, 5]);
    expect(JSON.stringify(fleet.state).length).toBeLessThan(65_536);
  });
});

describe('figures that cannot be', () => {
  const odd = fc.constantFrom(
    Number.NaN,
    Number.POSITIVE_INFINITY,
    -1,
    -1e300,
    1e300,
    Number.MAX_VALUE,
    undefined,
    0,
    3,
    1e7,
  );
  const anyTold = fc.record({
    started: odd,
    held: odd,
    running: odd,
    isl: odd,
    osl: odd,
    kvHitRate: odd,
    acceptLength: odd,
    startSeconds: odd,
    ready: odd,
    starting: odd,
    itlMs: odd,
    kvUse: odd,
    wallTimeS: odd,
    tokens: odd,
    behind: odd,
  });

  it.each(['rate', 'latency', 'sla'])('never bring the law %s out of its bounds, nor into its memory', (law) => {
    const planner = plannerOf({
      law,
      enable_load_scaling: true,
      rate_seasonal: true,
      min_endpoint: 1,
      rate_requests_per_second: null,
    });
    fc.assert(
      fc.property(fc.array(anyTold, { maxLength: 40 }), (all) => {
        let state = startPlanner(0);
        all.forEach(
          ({ ready, starting, started, held, running, itlMs, kvUse, wallTimeS, tokens, behind, ...rest }, at) => {
            const pass = {
              workerId: 'a',
              dpRank: 0,
              prefillRequests: 1,
              prefillKvTokens: 0,
              decodeRequests: 1,
              queuedPrefillRequests: 0,
              queuedDecodeRequests: 0,
              queuedDecodeKvTokens: 0,
            };
            const figures = { wallTimeS, prefillTokens: tokens, decodeKvTokens: tokens, queuedPrefillTokens: tokens };
            const input = {
              ...rest,
              nowS: 5 * (at + 1),
              counts: { decode: { ready, starting } },
              started,
              held,
              running,
              observed: { decode: { itlMs, kvUse } },
              backlog: { decode: { workers: behind, requests: tokens } },
              passes: { decode: [{ ...pass, ...figures }] },
              traffic: { seconds: 5, requests: started, isl: tokens, osl: tokens },
            } as PlannerInput;
            const { state: next, effect } = tick(state, input, planner);
            state = next;
            const target = effect.targets?.decode;
            if (target !== undefined) {
              expect(Number.isInteger(target)).toBe(true);
              expect(target).toBeGreaterThanOrEqual(1);
              expect(target).toBeLessThanOrEqual(16);
            }
            expect(effect.reason).not.toMatch(/NaN|Infinity|undefined/);
          },
        );
        expect(JSON.parse(JSON.stringify(state))).toEqual(
          JSON.parse(JSON.stringify(state, (_, v) => (typeof v === 'number' && !Number.isFinite(v) ? 'odd' : v))),
        );
      }),
      { numRuns: 60 },
    );
  });

  it('a time that is not a number is a mistake of the host', () => {
    const input = { nowS: Number.NaN, counts: {}, started: 0, held: 0, running: 0 };
    expect(() => tick(startPlanner(0), input, plannerOf())).toThrow('nowS must be a number of seconds, not NaN');
  });
});
