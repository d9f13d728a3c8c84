import { describe, expect, it } from 'vitest';
import { parsePlannerConfig } from '../../../shared/planner/config.ts';
import { capacityOf, estimateTtftMs } from '../../../shared/planner/forward-pass/estimates.ts';
import type { ForwardPass } from '../../../shared/planner/forward-pass/metrics.ts';
import { NO_PASSES, observePasses, passModel } from '../../../shared/planner/forward-pass/model.ts';
import { clampPair } from '../../../shared/planner/gpu-budget.ts';
import { learnPasses, startLoops, tickLoops } from '../../../shared/planner/loops.ts';
import { forecast, NO_POINTS, observe } from '../../../shared/planner/predictors/predictor.ts';
import type { TickInput } from '../../../shared/planner/types.ts';

const IDLE: ForwardPass = {
  workerId: '',
  dpRank: 0,
  wallTimeS: 0,
  prefillRequests: 0,
  prefillTokens: 0,
  prefillKvTokens: 0,
  decodeRequests: 0,
  decodeKvTokens: 0,
  queuedPrefillRequests: 0,
  queuedPrefillTokens: 0,
  queuedDecodeRequests: 0,
  queuedDecodeKvTokens: 0,
};
type Figures = Partial<ForwardPass>;

/** 10 ms, and 20 us a token. */
const PREFILL = [1000, 2000, 3000, 4000, 5000].map((prefillTokens) => ({
  ...IDLE,
  prefillRequests: 1,
  prefillTokens,
  wallTimeS: 0.01 + 0.00002 * prefillTokens,
}));
/** 5 ms, 50 us a request, and 0.1 us a token of context. */
const DECODE = [10, 20, 40, 80, 160].flatMap((decodeRequests) =>
  [1000, 3000].map((context) => ({
    ...IDLE,
    decodeRequests,
    decodeKvTokens: decodeRequests * context,
    wallTimeS: 0.005 + 0.00005 * decodeRequests + 1e-7 * decodeRequests * context,
  })),
);

/** What a planner of one pool wants after one tick of a load loop. */
function target(
  pool: 'prefill' | 'decode',
  settings: object,
  engine: object,
  engines: readonly Figures[],
  learned: ForwardPass[] = [],
) {
  const config = parsePlannerConfig({ mode: pool, max_gpu_budget: 16, ...settings });
  const passes = engines.map((figures, at) => ({ ...IDLE, workerId: `${at}`, ...figures }));
  const input: TickInput = { nowS: 5, counts: { [pool]: { ready: passes.length } }, passes: { [pool]: passes } };
  const state = learnPasses(startLoops(0), { [pool]: learned.map((pass) => [pass]) }, config);
  const { outcome } = tickLoops(state, input, config, { [pool]: { gpus: 1, ...engine } });
  return { count: outcome.targets?.[pool] ?? passes.length, reason: outcome.load?.reason };
}

const queued = (...tokens: readonly number[]): Figures[] =>
  tokens.map((queuedPrefillTokens) => ({ queuedPrefillTokens }));
const used = (...shares: readonly number[]): Figures[] => shares.map((share) => ({ decodeKvTokens: 100_000 * share }));

describe('the worked examples of thresholds', () => {
  it.each([
    [[4096, 8192], 3],
    [[800, 818], 1],
    [[800, 820], 2],
  ])('queued prefill of %j of 8192 tokens: %d workers', (tokens, count) => {
    const engine = { contextLength: 8192 };
    expect(target('prefill', { law: 'throughput' }, engine, queued(...tokens)).count).toBe(count);
  });

  it.each([
    ['throughput', [0.59, 0.2, 0.4], 2],
    ['throughput', [0.6, 0.2, 0.4], 3],
    ['throughput', [1, 0.2, 0.4], 3],
    ['throughput', [1.01, 0.2, 0.4], 4],
    ['latency', [0.41, 0.05, 0.05], 4],
    ['latency', [0.09, 0.05, 0], 2],
    ['throughput', [0.575, 0.025], 2], // the one that stays would be full
  ])('%s with caches used to %j: %d workers', (law, shares, count) => {
    expect(target('decode', { law }, { maxKvTokens: 100_000 }, used(...shares)).count).toBe(count);
  });
});

describe('the worked examples of latencies', () => {
  const options = { kind: 'prefill', samplesMax: 64, buckets: 16, observationsMin: 5 } as const;
  const limits = { maxNumBatchedTokens: 8192, maxNumSeqs: 256, maxKvTokens: 400_000 };
  const prefill = passModel(
    observePasses(
      NO_PASSES,
      PREFILL.map((pass) => [pass]),
      options,
    ),
    options,
  )!;
  const decode = passModel(
    observePasses(
      NO_PASSES,
      DECODE.map((pass) => [pass]),
      { ...options, kind: 'decode' },
    ),
    { ...options, kind: 'decode' },
  )!;

  it('20,000 queued tokens and one prompt more are three chunks of 490 ms; half of it cached, two of 250 ms', () => {
    const engine = { ...IDLE, queuedPrefillTokens: 20_000 };
    expect(estimateTtftMs(prefill, limits, engine)).toBeCloseTo(490, 6);
    expect(estimateTtftMs(prefill, limits, engine, { kvHitRate: 0.5 })).toBeCloseTo(250, 6);
    expect(estimateTtftMs(prefill, limits, engine, { queueScale: 0 })).toBeCloseTo(70, 6);
  });

  const SLA = { law: 'sla', enable_load_scaling: true, enable_throughput_scaling: false };
  it.each([
    [400, [20_000, 20_000], { count: 3, reason: 'scale_up' }],
    [400, [20_000, 1000], { count: 2, reason: 'scale_down_refused_consolidation' }],
    [500, [4000, 4000, 4000], { count: 2, reason: 'scale_down' }],
  ])('a target of %d ms with %j queued: %j', (ttft_ms, tokens, wanted) => {
    expect(target('prefill', { ...SLA, ttft_ms }, limits, queued(...tokens), PREFILL)).toEqual(wanted);
  });

  it.each([
    [400_000, { count: 2, reason: 'scale_down' }],
    [80_000, { count: 3, reason: 'scale_down_refused_consolidation' }],
  ])('three engines with 60,000 tokens each of %d: %j', (maxKvTokens, wanted) => {
    const engines = [0, 1, 2].map(() => ({ decodeRequests: 20, decodeKvTokens: 60_000 }));
    expect(target('decode', SLA, { ...limits, maxKvTokens }, engines, DECODE)).toEqual(wanted);
  });

  it('a prefill engine serves 15.4 prompts of 3,000 tokens a second, and 2.3 of 20,000', () => {
    const at = (isl: number) => capacityOf('prefill', prefill, limits, { isl, osl: 150 })?.requestsPerSecond;
    expect(at(3000)).toBeCloseTo(15.384615, 5);
    expect(at(20_000)).toBeCloseTo(2.325581, 5);
  });

  it.each([
    [50, 1, 16.771488, 125, true],
    [20, 1, 13.904786, 41, true],
    [20, 2, 32.59614, undefined, true],
    [4, 1, 16.836652, 130, false],
  ])(
    'a decode engine that is to hold %d ms, %d tokens a pass: %d requests a second',
    (itlSlaMs, acceptLength, rps, batch, isWithinSla) => {
      const capacity = capacityOf('decode', decode, limits, { isl: 3000, osl: 150, itlSlaMs, acceptLength });
      expect(capacity?.requestsPerSecond).toBeCloseTo(rps, 4);
      expect(capacity?.isWithinSla).toBe(isWithinSla);
      if (batch !== undefined) expect(capacity?.batch).toBe(batch);
    },
  );
});

describe('the worked examples of budgets, predictors and ticks', () => {
  it.each([
    [
      [6, 6],
      [1, 1],
      [-1, 8],
      [4, 4],
    ],
    [
      [4, 3],
      [2, 4],
      [-1, 16],
      [3, 2],
    ],
    [
      [3, 3],
      [2, 2],
      [-1, 3],
      [0, 0],
    ],
    [
      [1, 9],
      [1, 1],
      [-1, 8],
      [1, 7],
    ],
    [
      [1, 1],
      [1, 1],
      [8, 16],
      [4, 4],
    ],
    [
      [1, 1],
      [2, 2],
      [5, 5],
      [1, 1],
    ],
  ])('%j workers of %j GPUs within %j: %j', (counts, gpus, bounds, wanted) => {
    const pair = ([prefill = 0, decode = 0]: number[]) => ({ prefill, decode });
    const limits = { gpus: pair(gpus), bounds: { min: bounds[0]!, max: bounds[1]! }, endpointsMin: pair([1, 1]) };
    expect(clampPair(pair(counts), limits)).toEqual(pair(wanted));
  });

  it('a Kalman filter expects 19.99 after 10, 12, 14, 16, 18', () => {
    const options = { name: 'kalman' } as const;
    const state = [10, 12, 14, 16, 18].reduce((before, value) => observe(before, value, options), NO_POINTS);
    expect(forecast(state, options).value).toBeCloseTo(19.989565, 5);
  });

  it('ticks come as often as all loops divide by', () => {
    const both = { law: 'sla', enable_load_scaling: true };
    expect(parsePlannerConfig(both).tickSeconds).toBe(5);
    expect(parsePlannerConfig({ ...both, load_adjustment_interval_seconds: 7 }).tickSeconds).toBe(1);
  });
});
