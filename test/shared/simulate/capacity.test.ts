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
/** Prompts of 100 ms that share nothing, and answers of 100 tokens. */
const REQUESTS = workloadOf(
  Array.from({ length: 20 }, (_, at) => ({ arrivalMs: 50 * (at + 1), inputTokens: 1000, outputTokens: 100 })),
);

/** Requests a second of a rank with `requests` of these: a pass has their decode step, and what they prefill. */
function rate(requests: number): number {
  const passMs = 20 + requests * (1000 / 100) * 0.1;
  return (1000 * requests) / (100 * passMs);
}

describe('capacityOf', () => {
  it('is the rate at which every rank has full batches all the time', () => {
    expect(capacityOf(REQUESTS, FLEET)).toBeCloseTo(3 * rate(10), 6);
    expect(capacityOf(REQUESTS, { ...FLEET, dataParallelSize: 2 })).toBeCloseTo(6 * rate(10), 6);
  });

  it('adds the speeds of the workers', () => {
    expect(capacityOf(REQUESTS, { ...FLEET, workerSpeeds: [1, 0.4] })).toBeCloseTo(2.4 * rate(10), 6);
    expect(capacityOf(REQUESTS, { ...FLEET, cpus: { count: 1, slowdown: 2 } })).toBeCloseTo(2.5 * rate(10), 6);
  });

  it('has as many requests on a rank as its cache holds', () => {
    const engine = { ...ENGINE, numGpuBlocks: 10 }; // 5,120 tokens: four prompts with half of their answers
    expect(capacityOf(REQUESTS, { ...FLEET, engine })).toBeCloseTo(3 * rate(4), 6);
  });

  it('has as many requests on a rank as full passes can prefill', () => {
    const engine = { ...ENGINE, maxNumBatchedTokens: 50 }; // 5 requests with 10 prompt tokens in each pass
    expect(capacityOf(REQUESTS, { ...FLEET, engine })).toBeCloseTo(3 * rate(5), 6);
  });

  it('takes the hits of one cache for all as computed already, unless caching is off', () => {
    const same = workloadOf(
      Array.from({ length: 20 }, () => ({ inputTokens: 1024, outputTokens: 1, segmentIds: [1, 2] })),
    );
    const hitTokens = (19 * 512) / 20; // all but the first find the first block; at least one token is computed
    expect(capacityOf(same, FLEET)).toBeCloseTo(30_000 / (1024 - hitTokens), 1);
    const engine = { ...ENGINE, enablePrefixCaching: false };
    expect(capacityOf(same, { ...FLEET, engine })).toBeCloseTo(30_000 / 1024, 6);
  });

  it('holds a prefix that requests share once in the fleet', () => {
    const prefix = [1, 2, 3, 4, 5, 6, 7, 8];
    const agents = Array.from({ length: 20 }, (_, at) => ({
      inputTokens: 9 * 512,
      outputTokens: 100,
      segmentIds: [...prefix, 100 + at],
    }));
    const engine = { ...ENGINE, numGpuBlocks: 14, enablePrefixCaching: false };
    const one = capacityOf(workloadOf(agents), { ...FLEET, workers: 1, engine }); // 8 blocks, and 5 requests beside them
    const passMs = 20 + 5 * ((9 * 512) / 100) * 0.1;
    expect(one).toBeCloseTo((1000 * 5) / (100 * passMs), 1);
  });

  it('is that of the smaller of two pools', () => {
    const transfer = { bytesPerToken: 1, bandwidthGbps: 0, movesMissingOnly: false };
    const prefill = { workers: 1, dataParallelSize: 1, engine: ENGINE, transfer };
    expect(capacityOf(REQUESTS, { ...FLEET, prefill })).toBeCloseTo(1000 / 100, 1); // three times five would be more
    expect(capacityOf(REQUESTS, { ...FLEET, workers: 1, prefill })).toBeCloseTo((1000 * 10) / (100 * 20), 6);
  });

  it('is about what a fleet answers that has more to do', () => {
    const workload = makeWorkload({ ...SHARED_SESSIONS, sessions: 1200, turnsPerSession: 1, arrivalIntervalMs: 1 });
    const fleet = { workers: 1, dataParallelSize: 1, engine: FINE_ENGINE };
    const { durationMs } = simulate(options({ ...fleet, workload, routing: routing('kv') }));
    const answered = workload.size / (durationMs / 1000);
    expect(answered / capacityOf(workload, fleet)).toBeGreaterThan(0.75);
    expect(answered / capacityOf(workload, fleet)).toBeLessThan(1.1);
  });
});

describe('rateOf', () => {
  it('is the mean rate up to the last arrival', () => {
    expect(rateOf(REQUESTS)).toBeCloseTo(20, 6);
    expect(rateOf(workloadOf([{ inputTokens: 1 }]))).toBe(Number.POSITIVE_INFINITY);
  });
});
