import { describe, expect, it } from 'vitest';
import { makeWorkload, type SyntheticOptions } from '../../../shared/simulate/synthetic.ts';

const BASE: SyntheticOptions = {
  shape: 'steady',
  sessions: 2000,
  turnsPerSession: 1,
  interTurnDelayMs: 1000,
  arrivalIntervalMs: 50,
  burstSize: 10,
  inputTokens: 1000,
  outputTokens: 100,
  lengthSpread: 0,
  sharedPrefixRatio: 0,
  prefixGroups: 4,
  segmentTokens: 64,
  seed: 5,
};

function gapsOf(arrivalMs: Float64Array): readonly number[] {
  return Array.from(arrivalMs.subarray(1), (at, index) => at - arrivalMs[index]!);
}

describe('makeWorkload', () => {
  it.each(['steady', 'poisson', 'bursts', 'sessions'] as const)(
    'makes the same %s workload from the same seed',
    (shape) => {
      const options = { ...BASE, shape, sessions: 50, turnsPerSession: 3, lengthSpread: 0.5, sharedPrefixRatio: 0.5 };
      expect(makeWorkload(options)).toEqual(makeWorkload(options));
      expect(makeWorkload(options).inputTokens).not.toEqual(makeWorkload({ ...options, seed: 6 }).inputTokens);
    },
  );

  it('spaces steady arrivals evenly', () => {
    expect(new Set(gapsOf(makeWorkload(BASE).arrivalMs))).toEqual(new Set([50]));
  });

  it('spaces poisson arrivals as a memoryless process of the same rate', () => {
    const gaps = gapsOf(makeWorkload({ ...BASE, shape: 'poisson' }).arrivalMs);
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
    expect(mean).toBeGreaterThan(46);
    expect(mean).toBeLessThan(54);
    const isLong = gaps.filter((gap) => gap > 50).length / gaps.length;
    expect(isLong).toBeGreaterThan(0.33);
    expect(isLong).toBeLessThan(0.41); // 1/e
  });

  it('lets bursts arrive at one instant each, at the same rate', () => {
    const { arrivalMs } = makeWorkload({ ...BASE, shape: 'bursts' });
    expect(new Set(arrivalMs).size).toBe(200);
    const lastMs = arrivalMs.at(-1)!;
    expect(lastMs / 2000).toBeGreaterThan(40);
    expect(lastMs / 2000).toBeLessThan(60);
  });

  it('gives each prompt one of the shared prefixes', () => {
    const workload = makeWorkload({ ...BASE, sharedPrefixRatio: 0.5 });
    const firsts = new Set<number>();
    for (let request = 0; request < workload.size; request++) {
      const ids = workload.segmentIds.subarray(workload.segmentsFrom[request], workload.segmentsFrom[request + 1]);
      expect(ids.length).toBe(16);
      firsts.add(ids[0]!);
    }
    expect(firsts.size).toBe(4);
    const unique = new Set(workload.segmentIds).size;
    expect(unique).toBe(4 * 7 + 2000 * 9); // 7 of 16 segments are shared: half of 1,000 tokens in whole blocks
  });

  it('lets the prompt of a turn go on where the one before and its answer ended', () => {
    const workload = makeWorkload({ ...BASE, shape: 'sessions', sessions: 3, turnsPerSession: 3 });
    expect([...workload.inputTokens.subarray(0, 3)]).toEqual([1000, 2100, 3200]);
    expect([...workload.nextTurn.subarray(0, 3)]).toEqual([1, 2, -1]);
    expect([...workload.delayMs.subarray(0, 3)]).toEqual([0, 1000, 1000]);
    const idsOf = (request: number): Uint32Array =>
      workload.segmentIds.subarray(workload.segmentsFrom[request], workload.segmentsFrom[request + 1]);
    expect(idsOf(1).subarray(0, 15)).toEqual(idsOf(0).subarray(0, 15)); // the whole segments of 1,000 tokens
    expect(idsOf(1)[15]).not.toBe(idsOf(0)[15]);
  });

  it('varies lengths evenly around their mean', () => {
    const { inputTokens } = makeWorkload({ ...BASE, lengthSpread: 0.5 });
    const mean = inputTokens.reduce((sum, tokens) => sum + tokens, 0) / inputTokens.length;
    expect(Math.min(...inputTokens)).toBeGreaterThanOrEqual(500);
    expect(Math.max(...inputTokens)).toBeLessThanOrEqual(1500);
    expect(Math.abs(mean - 1000)).toBeLessThan(30);
  });
});
