import { describe, expect, it } from 'vitest';
import { capacityOf, rateOf } from '../../../shared/simulate/capacity.ts';
import { simulate } from '../../../shared/simulate/simulate.ts';
import { makeWorkload } from '../../../shared/simulate/synthetic.ts';
import { FINE_ENGINE, options, REFERENCE_ENGINE, routing, SHARED_SESSIONS, workloadOf } from './simulation-bed.ts';

/** A GPU that takes 0.1 ms for each prompt token and 20 ms for a decode step. */
const ENGINE = {
  ...REFERENCE_ENGINE,
  maxNumSeqs: 10,
  timing: { prefillMs: (tokens: number) => tokens / 10, decodeMs: () => 20 },
};
const FLEET = { workers: 3, dataParallelSize: 1, engine: ENGINE };
/** Prompts of 100 ms that share nothing, and answers of 100 steps of 20 ms in batches of ten. */
const REQUESTS = workloadOf(
  Array.from({ length: 20 }, (_, at) => ({ arrivalMs: 50 * (at + 1), inputTokens: 1000, outputTokens: 101 })),
);

describe('capacityOf', () => {
  it('is the rate at which every rank computes all the time in full batches', () => {
    expect(capacityOf(REQUESTS, FLEET)).toBeCloseTo(3 / (0.1 + 0.2), 6);
    expect(capacityOf(REQUESTS, { ...FLEET, dataParallelSize: 2 })).toBeCloseTo(6 / 0.3, 6);
  });

  it('adds the speeds of the workers', () => {
    expect(capacityOf(REQUESTS, { ...FLEET, workerSpeeds: [1, 0.4] })).toBeCloseTo(2.4 / 0.3, 6);
    expect(capacityOf(REQUESTS, { ...FLEET, cpus: { count: 1, slowdown: 2 } })).toBeCloseTo(2.5 / 0.3, 6);
  });

  it('takes the hits of one cache for all as computed already, unless caching is off', () => {
    const ids = [1, 2];
    const same = workloadOf(
      Array.from({ length: 20 }, (_, at) => ({ arrivalMs: at, inputTokens: 1024, outputTokens: 1, segmentIds: ids })),
    );
    const hitTokens = (19 * 512) / 20; // all but the first find the first of two blocks: one token is computed always
    expect(capacityOf(same, FLEET)).toBeCloseTo(30_000 / (1024 - hitTokens), 6);
    const engine = { ...ENGINE, enablePrefixCaching: false };
    expect(capacityOf(same, { ...FLEET, engine })).toBeCloseTo(30_000 / 1024, 6);
  });

  it('counts as many answers in a batch as the cache holds', () => {
    const engine = { ...ENGINE, numGpuBlocks: 10 }; // 5,120 tokens: four prompts with half of their answers
    expect(capacityOf(REQUESTS, { ...FLEET, engine })).toBeCloseTo(3 / (0.1 + 2 / 4), 6);
  });

  it('is that of the smaller of two pools', () => {
    const transfer = { bytesPerToken: 1, bandwidthGbps: 0, movesMissingOnly: false };
    const prefill = { workers: 1, dataParallelSize: 1, engine: ENGINE, transfer };
    expect(capacityOf(REQUESTS, { ...FLEET, prefill })).toBeCloseTo(1 / 0.1, 6);
    expect(capacityOf(REQUESTS, { ...FLEET, workers: 1, prefill })).toBeCloseTo(1 / 0.2, 6);
  });

  it('is about what a fleet answers that has more to do', () => {
    const workload = makeWorkload({ ...SHARED_SESSIONS, sessions: 400, turnsPerSession: 1, arrivalIntervalMs: 1 });
    const fleet = { workers: 2, dataParallelSize: 1, engine: FINE_ENGINE };
    const { durationMs } = simulate(options({ ...fleet, workload, routing: routing('kv') }));
    const answered = workload.size / (durationMs / 1000);
    expect(answered / capacityOf(workload, fleet)).toBeGreaterThan(0.6);
    expect(answered / capacityOf(workload, fleet)).toBeLessThan(1.1);
  });
});

describe('rateOf', () => {
  it('is the mean rate up to the last arrival', () => {
    expect(rateOf(REQUESTS)).toBeCloseTo(20, 6);
    expect(rateOf(workloadOf([{ inputTokens: 1 }]))).toBe(Number.POSITIVE_INFINITY);
  });
});
