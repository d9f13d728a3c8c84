import { describe, expect, it } from 'vitest';
import { GapHistogram, peakToMean, spreadOf } from '../../../shared/simulate/percentiles.ts';

describe('spreadOf', () => {
  it('takes the values nearest to their ranks', () => {
    const values = Float64Array.from({ length: 101 }, (_, at) => 100 - at);
    expect(spreadOf(values)).toEqual({ mean: 50, p50: 50, p90: 90, p99: 99 });
    expect(spreadOf(Float64Array.of(4, 1, 2, 3))).toEqual({ mean: 2.5, p50: 3, p90: 4, p99: 4 });
    expect(spreadOf(Float64Array.of(7))).toEqual({ mean: 7, p50: 7, p90: 7, p99: 7 });
  });

  it('is 0 without values, and leaves the values as they are', () => {
    expect(spreadOf(new Float64Array())).toEqual({ mean: 0, p50: 0, p90: 0, p99: 0 });
    const values = Float64Array.of(3, 1);
    spreadOf(values);
    expect([...values]).toEqual([3, 1]);
  });
});

describe('GapHistogram', () => {
  it('knows the mean exactly and percentiles to 0.3 %', () => {
    const gaps = new GapHistogram();
    const values = Array.from({ length: 2000 }, (_, at) => 3 + ((at * 7919) % 2000) * 0.37);
    for (const value of values) gaps.add(value);
    const sorted = values.toSorted((a, b) => a - b);
    expect(gaps.count).toBe(2000);
    expect(gaps.meanMs).toBeCloseTo(values.reduce((sum, value) => sum + value, 0) / 2000, 9);
    for (const share of [0.01, 0.5, 0.9, 0.99, 1]) {
      const exact = sorted[Math.ceil(share * 2000) - 1] ?? 0;
      expect(Math.abs(gaps.quantileMs(share) / exact - 1)).toBeLessThan(0.003);
    }
  });

  it('is 0 when empty', () => {
    expect(new GapHistogram().meanMs).toBe(0);
    expect(new GapHistogram().quantileMs(0.5)).toBe(0);
  });
});

describe('peakToMean', () => {
  it('tells the largest part from an even one', () => {
    expect(peakToMean([2, 2, 2])).toBe(1);
    expect(peakToMean([1, 5])).toBeCloseTo(5 / 3);
    expect(peakToMean([0, 0])).toBe(1);
  });
});
