import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LogHistogram } from '../../../shared/console/log-histogram.ts';

describe('quantiles of durations', () => {
  it('are within a quarter of the exact ones', () => {
    const durations = fc.array(fc.double({ min: 1, minExcluded: true, max: 300_000, noNaN: true }), {
      minLength: 1,
      maxLength: 300,
    });
    fc.assert(
      fc.property(durations, fc.constantFrom(0.5, 0.95, 0.99), (all, share) => {
        const histogram = new LogHistogram();
        for (const ms of all) histogram.observe(ms);
        const exact = all.toSorted((a, b) => a - b)[Math.ceil(share * all.length) - 1]!;
        const found = histogram.quantile(share)!;
        expect(found).toBeGreaterThan(exact / 1.26);
        expect(found).toBeLessThan(exact * 1.26);
      }),
    );
  });

  it('are those of both after a histogram is added, and none without durations', () => {
    const [one, other] = [new LogHistogram(), new LogHistogram()];
    expect(one.quantiles()).toBeNull();
    for (let at = 0; at < 90; at++) one.observe(10);
    for (let at = 0; at < 10; at++) other.observe(1000);
    one.add(other);
    expect(one.total).toBe(100);
    expect(one.quantile(0.5)).toBeLessThan(13);
    expect(one.quantile(0.95)).toBeGreaterThan(780);
    one.clear();
    expect(one.quantiles()).toBeNull();
  });
});
