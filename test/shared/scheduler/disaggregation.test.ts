import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import {
  BYPASS_ANNOTATION,
  bootstrapRoom,
  bypassesRemotePrefill,
  clientAnnotations,
  decodeOverride,
  prefillStop,
  readConditionalDisaggregation,
  requirePrefillWorker,
} from '../../../shared/scheduler/index.ts';

describe('the stages of a disaggregated request', () => {
  it('prefill one token', () => {
    expect(prefillStop({ max_tokens: 500, min_tokens: 20, stop: ['x'] })).toEqual({ max_tokens: 1, stop: ['x'] });
  });

  it('decode without credit, reuse and prefill load, other overrides kept (case 44)', () => {
    const asked = { overlap_score_credit: 0.5, router_temperature: 0.7 };
    const wanted = { router_temperature: 0.7, assume_kv_reuse: false, track_prefill_tokens: false };
    expect(decodeOverride(asked, false)).toEqual({ ...wanted, overlap_score_credit: 0 });
    expect(decodeOverride(asked, true)).toEqual({ ...wanted, overlap_score_credit: 0.5 });
    expect(decodeOverride({ overlap_score_weight: 3 }, false)).not.toHaveProperty('overlap_score_weight');
    expect(decodeOverride(undefined, true)).toEqual({ assume_kv_reuse: false, track_prefill_tokens: false });
  });

  it('need a named prefill worker in direct mode, and the error names the header (case 42)', () => {
    expect(requirePrefillWorker({ prefill_worker_id: 'a' })).toBe('a');
    expect(() => requirePrefillWorker({})).toThrow('x-dynamo-prefill-instance-id');
  });

  it('meet in a room below 2^63 that maps to the known rank (case 46)', () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 1, max: 64 }), fc.nat(), (seed, size, pick) => {
        const rank = pick % size;
        const room = BigInt(bootstrapRoom(seededRandom(seed), { rank, size }));
        expect(room >= 0n && room < 2n ** 63n).toBe(true);
        expect(room % BigInt(size)).toBe(BigInt(rank));
        expect(BigInt(bootstrapRoom(seededRandom(seed))) < 2n ** 63n).toBe(true);
      }),
    );
    const highest = { ...seededRandom(1), below: (bound: number) => bound - 1 };
    const room = BigInt(bootstrapRoom(highest, { rank: 6, size: 7 }));
    expect(room % 7n).toBe(6n);
    expect(room < 2n ** 63n).toBe(true);
  });

  it('do not listen to a client that says to bypass the prefill worker', () => {
    expect(clientAnnotations(['a', BYPASS_ANNOTATION])).toEqual(['a']);
    expect(clientAnnotations(['a'])).toEqual(['a']);
  });
});

describe('conditional disaggregation', () => {
  const facts = { promptTokens: 4000, cachedTokens: 3000, prefill: undefined, decode: undefined };
  const busyPrefill = { activeTokens: 9000, batchedTokens: 8192 };

  it('bypasses by default when fewer than 2,048 tokens and 70 % of the prompt are left', () => {
    const rule = readConditionalDisaggregation();
    expect(bypassesRemotePrefill(rule, facts)).toBe(true);
    expect(bypassesRemotePrefill(rule, { ...facts, cachedTokens: 1952 })).toBe(false);
    expect(bypassesRemotePrefill(rule, { ...facts, promptTokens: 1000, cachedTokens: 300 })).toBe(false);
    expect(bypassesRemotePrefill(rule, { ...facts, promptTokens: 1000, cachedTokens: 301 })).toBe(true);
  });

  it('bypasses a full prefill worker where the policy looks at load', () => {
    const load = readConditionalDisaggregation({ policy: 'prefill_load' }, 1);
    const either = readConditionalDisaggregation({ policy: 'isl_or_load', prefill_busy_threshold: 2 });
    const long = { ...facts, cachedTokens: 0, prefill: busyPrefill };
    expect(bypassesRemotePrefill(load, long)).toBe(true);
    expect(bypassesRemotePrefill(load, { ...long, prefill: { activeTokens: 8192, batchedTokens: 8192 } })).toBe(false);
    expect(bypassesRemotePrefill(load, facts)).toBe(false);
    expect(bypassesRemotePrefill(either, long)).toBe(false);
    expect(bypassesRemotePrefill(either, facts)).toBe(true);
  });

  it('spares a decode worker that is full itself', () => {
    const rule = readConditionalDisaggregation({ decode_busy_threshold: 0.9 });
    expect(bypassesRemotePrefill(rule, { ...facts, decode: { activeBlocks: 91, totalBlocks: 100 } })).toBe(false);
    expect(bypassesRemotePrefill(rule, { ...facts, decode: { activeBlocks: 90, totalBlocks: 100 } })).toBe(true);
  });

  it.each([
    [{ policy: 'sometimes' }, 'policy must be'],
    [{ isl: 1 }, 'isl is unknown'],
    [{ eff_isl_ratio_threshold: 2 }, 'eff_isl_ratio_threshold must be a number from 0 to 1'],
    [{ policy: 'prefill_load' }, 'needs prefill_busy_threshold or router_queue_threshold'],
  ])('refuses %j', (object, message) => {
    expect(() => readConditionalDisaggregation(object)).toThrow(message);
  });
});
