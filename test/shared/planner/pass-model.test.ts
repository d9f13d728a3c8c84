import { describe, expect, it } from 'vitest';
import type { ForwardPass } from '../../../shared/planner/forward-pass/metrics.ts';
import { NO_PASSES, observePasses, passModel } from '../../../shared/planner/forward-pass/model.ts';

const OPTIONS = { kind: 'aggregated', samplesMax: 16, buckets: 16, observationsMin: 5 } as const;
const IDLE: ForwardPass = {
  workerId: 'a',
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

/** 5 ms, and 10 ms more for every 100,000 tokens of context. */
function decode(requests: number, ms = 5 + requests / 100): ForwardPass[] {
  return [{ ...IDLE, wallTimeS: ms / 1000, decodeRequests: requests, decodeKvTokens: 100 * requests }];
}

function mixed(requests: number): ForwardPass[] {
  return [{ ...decode(requests)[0]!, wallTimeS: 0.05, prefillRequests: 1, prefillTokens: 100 * requests }];
}

const rising = [10, 20, 30, 40, 50, 60].map((requests) => decode(requests));
const ofDecode = (requests: number) => ({ decodeRequests: requests, decodeKvTokens: 100 * requests });

describe('what a planner learns of the times of passes', () => {
  it('is said of each mix of work once there are enough passes of that mix', () => {
    const state = observePasses(NO_PASSES, [...rising, ...[1, 2, 3, 4].map(mixed)], OPTIONS);
    const both = { ...ofDecode(30), prefillRequests: 1, prefillTokens: 200 };
    expect(passModel(state, OPTIONS)?.passMs(ofDecode(80))).toBeCloseTo(5.8, 6);
    expect(passModel(state, OPTIONS)?.passMs(both)).toBeUndefined();
    const enough = observePasses(state, [[{ ...mixed(9)[0]!, wallTimeS: 0.09 }]], OPTIONS);
    expect(passModel(enough, OPTIONS)?.passMs(both)).toBeGreaterThan(0);
  });

  it('is kept when the last passes explain nothing', () => {
    const last = { ...OPTIONS, samplesMax: 6, buckets: 1 };
    const state = observePasses(NO_PASSES, rising, last);
    // More work in less time: no plane without negative slopes but a flat one.
    const odd = [1, 2, 3, 4, 5, 6].map((at) => decode(100 + at, 50 - at));
    const after = observePasses(state, odd, last);
    expect(after.stores.decode?.samples.every(({ ms }) => ms > 40)).toBe(true);
    expect(passModel(after, last)?.passMs(ofDecode(80))).toBeCloseTo(5.8, 6);
  });

  it('rests on light and heavy passes alike, however many light ones follow', () => {
    const heavy = observePasses(NO_PASSES, [...rising, decode(2000)], OPTIONS);
    const light = Array.from({ length: 500 }, (_, at) => decode(10 + (at % 3)));
    const { stores } = observePasses(heavy, light, OPTIONS);
    expect(stores.decode?.samples).toHaveLength(16);
    expect(stores.decode?.samples.some(({ work }) => work === 2000)).toBe(true);
  });
});
