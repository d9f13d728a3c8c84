import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resolveConfig } from '../../../shared/config/index.ts';
import { BUCKETS, type Buckets, bucketsOf, logBounds, stepBounds } from '../../../shared/telemetry/metrics/buckets.ts';

/** Dynamo's buckets. */
const TABLE: Record<keyof Buckets, readonly number[]> = {
  requestDuration: [0, 2, 4, 8, 16, 32, 64, 130, 260, 510],
  inputSequence: [0, 100, 210, 430, 870, 1800, 3600, 7400, 15000, 31000, 63000, 130000],
  outputSequence: [0, 100, 210, 430, 880, 1800, 3700, 7600, 16000, 32000],
  ttft: [0, 0.0022, 0.0047, 0.01, 0.022, 0.047, 0.1, 0.22, 0.47, 1, 2.2, 4.7, 10, 22, 48, 100, 220, 480],
  itl: [
    0, 0.0018, 0.0033, 0.0059, 0.011, 0.02, 0.035, 0.064, 0.12, 0.21, 0.38, 0.69, 1.2, 2.3, 4.1, 7.4, 13, 24, 44, 80,
  ],
  embeddingLatency: [0, 0.002, 0.0041, 0.0084, 0.017, 0.035, 0.07, 0.14, 0.29, 0.59, 1.2, 2.4, 4.9, 10],
};

describe('histogram bounds', () => {
  it.each(Object.entries(TABLE))('of %s are the published ones by default', (set, bounds) => {
    expect(logBounds(BUCKETS[set as keyof Buckets])).toEqual(bounds);
  });

  it('follow the same formula for the router’s inter-token latency', () => {
    const bounds = [0, 0.0019, 0.0035, 0.0067, 0.013, 0.024, 0.045, 0.084, 0.16, 0.3, 0.56, 1.1, 2];
    expect(logBounds({ min: 0.001, max: 2, count: 13 })).toEqual(bounds);
  });

  it('come from the settings, whose defaults they are', () => {
    expect(bucketsOf(resolveConfig('frontend', [], {}).settings)).toEqual(BUCKETS);
    const env = { DYN_METRICS_ITL_MIN: '1', DYN_METRICS_ITL_MAX: '100', DYN_METRICS_ITL_COUNT: '3' };
    const { itl, ttft } = bucketsOf(resolveConfig('frontend', [], env).settings);
    expect([logBounds(itl), logBounds({ ...ttft, count: 1 })]).toEqual([[0, 10, 100], [0]]);
  });

  it.each([
    ['MIN', '0'],
    ['MIN', '-1'],
    ['MIN', '600'],
    ['MAX', '1'],
    ['COUNT', '0'],
    ['COUNT', '513'],
    ['COUNT', '2.5'],
    ['MAX', 'NaN'],
    ['MAX', 'Infinity'],
  ])('stay the default, with a warning, where %s is %s', (end, text) => {
    const name = `DYN_METRICS_REQUEST_DURATION_${end}`;
    const { settings, warnings } = resolveConfig('frontend', [], { [name]: text });
    expect(bucketsOf(settings)).toEqual(BUCKETS);
    expect(warnings.join()).toContain(name);
  });

  it('ascend strictly for any range that makes sense', () => {
    const range = fc
      .record({
        min: fc.double({ min: 1e-6, max: 1e6, noNaN: true }),
        factor: fc.double({ min: 1.01, max: 1e6, noNaN: true }),
        count: fc.integer({ min: 1, max: 512 }),
      })
      .map(({ min, factor, count }) => ({ min, max: min * factor, count }));
    fc.assert(
      fc.property(range, (each) => {
        const bounds = logBounds(each);
        expect(bounds.length).toBeLessThanOrEqual(each.count);
        for (let at = 1; at < bounds.length; at++) expect(bounds[at]).toBeGreaterThan(bounds[at - 1]!);
      }),
    );
  });

  it('of steps are cut out of one list', () => {
    expect(stepBounds(0.0001, 1)).toEqual([0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1]);
    expect(stepBounds(0.001, 5)).toEqual([0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5]);
  });
});
