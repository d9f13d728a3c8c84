import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { captureLogger, silentLogger } from '../../../shared/telemetry/index.ts';
import { type BucketSet, bucketBounds, logBounds, stepBounds } from '../../../shared/telemetry/metrics/buckets.ts';

/** Dynamo's buckets. */
const TABLE: Record<BucketSet, readonly number[]> = {
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
    expect(bucketBounds(set as BucketSet, {}, silentLogger)).toEqual(bounds);
  });

  it('follow the same formula for the router’s inter-token latency', () => {
    const bounds = [0, 0.0019, 0.0035, 0.0067, 0.013, 0.024, 0.045, 0.084, 0.16, 0.3, 0.56, 1.1, 2];
    expect(logBounds({ min: 0.001, max: 2, count: 13 })).toEqual(bounds);
  });

  it('take each part of a range from the configuration', () => {
    expect(bucketBounds('requestDuration', { requestDuration: { count: 2 } }, silentLogger)).toEqual([0, 510]);
    expect(bucketBounds('itl', { itl: { min: 1, max: 100, count: 3 } }, silentLogger)).toEqual([0, 10, 100]);
    expect(bucketBounds('ttft', { ttft: { count: 1 } }, silentLogger)).toEqual([0]);
  });

  it.each([
    { min: 0 },
    { min: -1 },
    { min: 600 },
    { max: 1 },
    { count: 0 },
    { count: 513 },
    { count: 2.5 },
    { max: Number.NaN },
    { max: Infinity },
  ])('stay the default, with one warning, for %j', (range) => {
    const { logger, lines } = captureLogger();
    expect(bucketBounds('requestDuration', { requestDuration: range }, logger)).toEqual(TABLE.requestDuration);
    expect(lines).toMatchObject([{ level: 'warn', fields: { set: 'requestDuration', ...range } }]);
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
