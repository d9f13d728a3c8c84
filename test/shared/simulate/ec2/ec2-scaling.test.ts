import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parsePlannerConfig } from '../../../../shared/planner/config.ts';
import type { OptionSpec } from '../../../../shared/planner/index.ts';
import type { FleetConditions } from '../../../../shared/simulate/ec2/conditions.ts';
import type { Ec2ScalingOptions } from '../../../../shared/simulate/ec2/ec2-scaling.ts';
import { simulatePlanned } from '../../../../shared/simulate/index.ts';
import type { SimulationOptions } from '../../../../shared/simulate/simulate.ts';
import { summarize } from '../../../../shared/simulate/summary.ts';
import { fleetSpec, optionSpec } from '../../../support/planner/ec2-fleet.ts';
import { options, REFERENCE_ENGINE, routing, workloadOf } from '../simulation-bed.ts';

const ONE = { gpusPerInstance: 2, replicasPerInstance: 1 };
const onDemand = (at: number, given: Partial<OptionSpec> = {}) =>
  optionSpec(`g${at}`, at, { ...ONE, id: `${at}-on-demand`, ...given });
const spot = (at: number, given: Partial<OptionSpec> = {}) =>
  optionSpec(`g${at}`, at, { ...ONE, id: `${at}-spot`, market: 'spot', ...given });

/** So many requests, one every so many milliseconds from a time on. */
function steady(count: number, everyMs: number, { fromMs = 0, outputTokens = 10 } = {}) {
  return workloadOf(
    Array.from({ length: count }, (_, at) => ({ arrivalMs: fromMs + at * everyMs, inputTokens: 400, outputTokens })),
  );
}

interface Scaled extends Partial<SimulationOptions> {
  readonly workload: SimulationOptions['workload'];
  readonly specs: readonly OptionSpec[];
  readonly conditions?: FleetConditions;
  readonly config?: object;
  readonly gpusMax?: number;
}

async function scaled({ specs, conditions = {}, config = {}, gpusMax, ...rest }: Scaled) {
  const planned = { mode: 'agg', start_seconds: 30, rate_requests_per_second: 2, max_gpu_budget: -1, ...config };
  const fleet = fleetSpec(specs);
  const scaling: Ec2ScalingOptions = {
    fleet: { ...fleet, pools: { decode: { ...fleet.pools.decode!, startSecs: 30, drainSecs: 60 } } },
    planner: { config: parsePlannerConfig({ decode_engine_num_gpu: 2, ...planned }), engines: {} },
    gpusMax,
    profile: {},
    conditions,
    defaults: { gpuPrice: 1, interruptionsPerHour: 0, startFailures: 0 },
    ttftTargetMs: 500,
  };
  const simulation = await simulatePlanned(options({ workers: 0, ...rest, scaling }));
  const summary = summarize(simulation);
  const [first, second] = summary.scaling!.options!;
  return { simulation, summary, scaling: summary.scaling!, first: first!, second: second! };
}

const START = { start: { capacity: 10, weights: 20 } };
/** A fleet goes to zero when it has been idle for five starts. */
const TO_ZERO = { min_endpoint: 0, idle_to_zero_seconds: 60 };
const AFTER_ZERO = steady(1, 1, { fromMs: 602_000 });

describe('a simulated fleet on EC2', () => {
  it('starts from zero when a request comes, and says how long that took', async () => {
    const { summary, scaling } = await scaled({
      workload: AFTER_ZERO,
      specs: [onDemand(0)],
      conditions: { options: { '*': START } },
      config: TO_ZERO,
    });
    // A second until the planner hears of it, one until the group acts, and 30 s for the start.
    expect(scaling.fromZero).toEqual({ count: 1, meanSeconds: 32, maxSeconds: 32 });
    expect(summary.ttftMs.p50).toBeGreaterThan(32_000);
    expect(summary.ttftMs.p50).toBeLessThan(33_000);
    expect(scaling.phaseShares).toMatchObject({ capacity: 1 / 3, weights: 2 / 3 });
  });

  it('names the mean and the longest of its starts from zero', async () => {
    const arrivals = [602_000, 1_502_000].map((arrivalMs) => ({ arrivalMs, inputTokens: 400, outputTokens: 10 }));
    const { scaling } = await scaled({
      workload: workloadOf(arrivals),
      specs: [onDemand(0)],
      conditions: { options: { '*': { start: { weights: [20, 60] } } } },
      config: TO_ZERO,
      seed: 3,
    });
    const { count, meanSeconds, maxSeconds } = scaling.fromZero!;
    expect(count).toBe(2);
    expect(meanSeconds).toBeGreaterThan(22);
    expect(maxSeconds).toBeGreaterThan(meanSeconds + 1);
    expect(maxSeconds).toBeLessThan(62);
  });

  it('is paid by the instance and its time, at the price of its GPUs if no other is given', async () => {
    const { first, second, scaling, summary } = await scaled({
      workload: steady(60, 1000),
      specs: [onDemand(0, { min: 1 }), spot(1, { min: 2 })],
      conditions: { options: { '1-spot': { pricePerHour: 0.5 } } },
      config: { min_endpoint: 3 },
    });
    const hours = summary.durationMs / 3_600_000;
    expect([first.instanceHours, second.instanceHours]).toEqual([hours, 2 * hours].map((each) => expect.closeTo(each)));
    expect(scaling.dollars).toBeCloseTo(2 * hours + 0.5 * 2 * hours);
    expect(summary.gpuHours).toBeCloseTo(6 * hours);
  });

  it('asks the next option at once if one has no capacity', async () => {
    const { scaling, first, second } = await scaled({
      workload: AFTER_ZERO,
      specs: [spot(0), onDemand(1)],
      conditions: { options: { '*': START, '0-spot': { ...START, shortages: [{ from: 300 }] } } },
      config: TO_ZERO,
    });
    expect(scaling.fromZero?.maxSeconds).toBe(34); // a second to tell of the failure, and one until the group acts
    expect(first).toMatchObject({ failedLaunches: { InsufficientInstanceCapacity: 1 }, launches: 1 });
    expect(second).toMatchObject({ launches: 1, starts: 1, startSeconds: 30 });
  });

  it('moves back to an earlier option once that has had room for a quarter of an hour', async () => {
    const { simulation, first, second } = await scaled({
      workload: steady(400, 5000),
      specs: [spot(0), onDemand(1)],
      conditions: { options: { '*': START, '0-spot': { ...START, shortages: [{ from: 0, to: 300 }] } } },
    });
    const [spots = [], onDemands = []] = simulation.scaling!.ec2!.options.map(({ points }) => points);
    const serving = (points: typeof spots, atMs: number) => points.find((point) => point.atMs >= atMs)?.serving;
    expect([serving(spots, 600_000), serving(onDemands, 600_000)]).toEqual([0, 1]);
    expect([serving(spots, 1_900_000), serving(onDemands, 1_900_000)]).toEqual([1, 0]);
    expect([first.launches, second.launches]).toEqual([1, 1]);
    expect([first.servingMax, second.servingMax]).toEqual([1, 1]);
    expect(simulation.refused).toBe(0);
  });

  it('moves the streams of an interrupted instance, and replaces it', async () => {
    const { simulation, scaling, first } = await scaled({
      workload: steady(60, 1000, { outputTokens: 30_000 }), // three minutes and more each
      specs: [spot(0, { min: 2 })],
      conditions: { options: { '*': START, '0-spot': { ...START, interruptions: { at: [65] } } } },
      workers: 2,
    });
    expect(first.interruptions).toBe(1);
    expect(first.movedStreams).toBeGreaterThan(5);
    expect(scaling.moved).toBe(first.movedStreams);
    expect(first.launches).toBeGreaterThanOrEqual(1);
    expect(simulation.refused).toBe(0);
  });

  it('starts sooner from a warm pool, which costs little while it waits', async () => {
    const warm = { warmPool: { min: 1, state: 'Stopped' as const } };
    const given = { ...START, warmSkips: ['capacity', 'weights' as const], warmPricePerHour: 0.1 };
    const { scaling, first, summary } = await scaled({
      workload: AFTER_ZERO,
      specs: [onDemand(0, warm)],
      conditions: { options: { '*': { ...given, start: { ...START.start, engine: 5 } } } } as FleetConditions,
      config: TO_ZERO,
    });
    expect(scaling.fromZero?.maxSeconds).toBe(7);
    expect(first.warmStarts).toBe(2);
    expect(3600 * first.warmHours).toBeGreaterThan(500);
    expect(first.dollars).toBeCloseTo(2 * first.instanceHours + 0.1 * first.warmHours);
    expect(summary.gpuHours).toBeCloseTo(2 * first.instanceHours);
  });

  it('pays an instance of the warm pool that runs like one that serves, with its GPUs', async () => {
    const warm = { warmPool: { min: 1, state: 'Running' as const } };
    const { first, summary, scaling } = await scaled({
      workload: steady(60, 1000),
      specs: [onDemand(0, warm)],
      conditions: { options: { '*': { ...START, pricePerHour: 3 } } },
      config: { max_gpu_budget: 2 },
      workers: 1,
    });
    const hours = summary.durationMs / 3_600_000;
    expect([first.instanceHours, first.warmHours]).toEqual([expect.closeTo(hours), expect.closeTo(hours)]);
    expect(scaling.dollars).toBeCloseTo(2 * 3 * hours);
    expect([first.gpuHours, summary.gpuHours]).toEqual([expect.closeTo(4 * hours), expect.closeTo(4 * hours)]);
  });

  it('pays a capacity block that outlasts the simulation for the time of the simulation', async () => {
    const endsAt = '2026-01-01T09:00:00Z';
    const block = optionSpec('g0', 0, { ...ONE, id: '0-capacity-block', market: 'capacity-block', endsAt, max: 2 });
    const { first, summary } = await scaled({ workload: steady(60, 1000), specs: [block], workers: 1 });
    expect(first.dollars).toBeCloseTo((2 * 2 * summary.durationMs) / 3_600_000);
  });

  it('sums the failures and the phases of all options', async () => {
    const lack = (...codes: string[]) => codes.map((code, at) => ({ from: 0, to: 30, zone: `zone-${at}`, code }));
    const { scaling, first, second } = await scaled({
      workload: steady(60, 5000),
      specs: [onDemand(0, { min: 0, max: 1 }), spot(1)],
      conditions: {
        options: {
          '*': { zones: ['zone-0', 'zone-1'] },
          '0-on-demand': {
            start: { boot: 10 },
            shortages: lack('InsufficientInstanceCapacity', 'VcpuLimitExceeded'),
          },
          '1-spot': {
            start: { weights: 30 },
            shortages: lack('MaxSpotInstanceCountExceeded', 'UnfulfillableCapacity'),
          },
        },
      },
      config: { min_endpoint: 3 },
    });
    const failed = [first, second].flatMap(({ failedLaunches }) => Object.values(failedLaunches));
    expect(failed.length).toBe(4);
    expect(scaling.failures).toBe(failed.reduce((total, count) => total + count, 0));
    expect(first.starts).toBeGreaterThan(0);
    expect(second.starts).toBeGreaterThan(first.starts);
    const [boot, weights] = [10 * first.starts, 30 * second.starts];
    expect(scaling.phaseShares?.boot).toBeCloseTo(boot / (boot + weights));
  });

  it('leaves a capacity block before its end, which is paid for as a whole', async () => {
    const endsAt = '2026-01-01T01:00:00Z'; // it ends after half an hour, and its drain begins a minute earlier
    const block = optionSpec('g0', 0, { ...ONE, id: '0-capacity-block', market: 'capacity-block', endsAt, max: 2 });
    const { simulation, first } = await scaled({
      workload: steady(420, 5000),
      specs: [block, onDemand(1)],
      conditions: { options: { '*': START } },
    });
    const [blocks = [], onDemands = []] = simulation.scaling!.ec2!.options.map(({ points }) => points);
    expect(onDemands.find(({ serving }) => serving > 0)?.atMs).toBeLessThan(1_750_000);
    expect(blocks.filter(({ serving }) => serving > 0).at(-1)?.atMs).toBeLessThan(1_800_000);
    expect(first.movedStreams).toBe(0);
    expect(first.dollars).toBeCloseTo(2 * 2 * 0.5);
    expect(simulation.refused).toBe(0);
  });

  it('begins no engine on instances that end together', async () => {
    const endsAt = '2026-01-01T00:40:00Z'; // it ends after ten minutes, and nothing drains before
    const pairs = { gpusPerInstance: 1, replicasPerInstance: 0, min: 4, max: 4 };
    const block = optionSpec('g0', 0, { ...pairs, id: '0-capacity-block', market: 'capacity-block', endsAt });
    const { simulation, first } = await scaled({
      workload: steady(4, 1000, { fromMs: 590_000, outputTokens: 30_000 }),
      specs: [block],
      workers: 2,
      config: { advisory: true },
    });
    expect(first.servingMax).toBe(4);
    expect(simulation.ranks.length).toBe(2);
  });

  it('keeps the budget that all models share', async () => {
    const most = async (gpusMax?: number) => {
      const specs = [onDemand(0, { max: 2 }), onDemand(1)];
      const conditions = { options: { '*': START } };
      const { simulation } = await scaled({
        workload: steady(2400, 100),
        specs,
        conditions,
        ...(gpusMax && { gpusMax }),
      });
      return Math.max(...simulation.scaling!.points.map(({ ready, starting }) => ready + starting));
    };
    expect(await most(8)).toBeLessThanOrEqual(4);
    expect(await most()).toBeGreaterThan(4);
  });

  it('makes an engine of several instances, which ends with the first of them', async () => {
    const pair = { gpusPerInstance: 1, replicasPerInstance: 0 };
    const { simulation, first } = await scaled({
      workload: steady(120, 1000),
      specs: [spot(0, { ...pair, min: 2, max: 8 })],
      conditions: { options: { '*': START, '0-spot': { ...START, interruptions: { at: [30] } } } },
      workers: 1,
    });
    const { points } = simulation.scaling!;
    expect(points[0]).toMatchObject({ ready: 1 });
    expect(points.some(({ ready }) => ready === 0)).toBe(true);
    expect(points.at(-1)?.ready).toBeGreaterThan(0);
    expect(first.launches).toBeGreaterThan(0);
    expect(simulation.refused).toBe(0);
  });

  it('refuses the requests for which nothing came within an hour', async () => {
    const { summary } = await scaled({
      workload: steady(3, 1000),
      specs: [onDemand(0)],
      conditions: { options: { '*': { shortages: [{ from: 0, code: 'VcpuLimitExceeded' }] } } },
    });
    expect(summary).toMatchObject({ requests: 0, refused: 3 });
    expect(summary.scaling?.options?.[0]?.failedLaunches.VcpuLimitExceeded).toBeGreaterThan(2);
  });
});

describe('whatever happens to a simulated fleet on EC2', () => {
  const anyFleet = fc.record({
    isSpotFirst: fc.boolean(),
    warm: fc.nat(1),
    min: fc.nat(1),
    lack: fc.record({ from: fc.nat(120), to: fc.integer({ min: 121, max: 400 }), instances: fc.nat(2) }),
    perHour: fc.constantFrom(0, 30),
    everyMs: fc.constantFrom(150, 700),
    mode: fc.constantFrom('kv' as const, 'round-robin' as const),
    seed: fc.nat(1000),
  });
  type AnyFleet = typeof anyFleet extends fc.Arbitrary<infer T> ? T : never;
  const run = ({ isSpotFirst, warm, min, lack, perHour, everyMs, mode, seed }: AnyFleet) => {
    const warmPool = warm === 0 ? {} : { warmPool: { min: 1, state: 'Stopped' as const } };
    const specs = isSpotFirst ? [spot(0, { max: 3 }), onDemand(1, warmPool)] : [onDemand(0, warmPool), spot(1)];
    const start = { start: { boot: 10, weights: [5, 40] as [number, number] } };
    const conditions: FleetConditions = {
      options: {
        '*': { ...start, pricePerHour: 1 },
        [specs[0]!.id]: { ...start, pricePerHour: 3, warmPricePerHour: 0, shortages: [lack] },
        [specs.find(({ market }) => market === 'spot')!.id]: { ...start, pricePerHour: 1, interruptions: { perHour } },
      },
    };
    const workload = steady(300, everyMs, { outputTokens: 100 });
    return scaled({ workload, specs, conditions, config: { min_endpoint: min }, routing: routing(mode), seed });
  };

  it('no request is lost, and hours and dollars are what a sum over the ticks gives', async () => {
    await fc.assert(
      fc.asyncProperty(anyFleet, async (of) => {
        const { simulation, summary, scaling } = await run(of);
        expect(summary.requests + summary.refused).toBe(300);
        for (const rank of simulation.ranks) expect(rank.isIdle).toBe(true);
        const tickS = 5;
        let dollars = 0;
        for (const { points, instanceHours, launches, dollars: paid } of simulation.scaling!.ec2!.options) {
          const counted = points.reduce(
            (total, { starting, serving, draining }) => total + starting + serving + draining,
            0,
          );
          const prepared = 50 * (launches + 1); // time of instances that were prepared for the warm pool
          const slackS = tickS * (2 * launches + 8) + prepared;
          expect(Math.abs(3600 * instanceHours - tickS * counted)).toBeLessThan(slackS);
          dollars += paid;
        }
        expect(scaling.dollars).toBeCloseTo(dollars);
        expect(summary.gpuHours).toBeCloseTo(scaling.options!.reduce((total, { gpuHours }) => total + gpuHours, 0));
      }),
      { numRuns: 4 },
    );
  });

  it('the same seed gives the same simulation', async () => {
    const [of] = fc.sample(anyFleet, { numRuns: 1, seed: 7 });
    const told = async () => {
      const { simulation, summary } = await run(of!);
      return JSON.stringify([summary, simulation.scaling, [...simulation.ttftMs]]);
    };
    expect(await told()).toBe(await told());
  });
});

describe('a simulated fleet on EC2 with many workers', () => {
  it('makes as many calls with 10,000 workers as with ten', async () => {
    const engine = { ...REFERENCE_ENGINE, numGpuBlocks: 8 };
    const calls = async (workers: number) => {
      const { scaling, simulation } = await scaled({
        workload: steady(20, 1000),
        engine,
        specs: [onDemand(0, { min: workers, max: 20_000 })],
        config: { min_endpoint: workers },
        workers,
      });
      expect(simulation.scaling!.points.at(-1)?.ready).toBe(workers);
      return scaling.autoScalingCalls;
    };
    expect(await calls(10_000)).toBe(await calls(10));
  });
});
