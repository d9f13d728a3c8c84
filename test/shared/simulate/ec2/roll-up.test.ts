import { describe, expect, it } from 'vitest';
import { type RolledPool, rollUp, shareOf, Traffic } from '../../../../shared/simulate/ec2/roll-up.ts';
import { REFERENCE_ENGINE } from '../simulation-bed.ts';

/** Traffic of two requests; the first one moved, and the second one had its prompt computed elsewhere. */
function twoRequests() {
  const traffic = new Traffic(2);
  for (const index of [0, 0, 1]) traffic.began(index);
  traffic.answered({ dispatchedMs: 1000, firstTokenMs: 1500, promptLength: 400, prefill: undefined }, 11, 2500);
  const prefill = { dispatchedMs: 2000 };
  traffic.answered({ dispatchedMs: 3000, firstTokenMs: 4000, promptLength: 600, prefill }, 1, 4000);
  return traffic.totals;
}

describe('the traffic of a simulated fleet', () => {
  it('counts each request once, with its lengths and times', () => {
    expect(twoRequests()).toMatchObject({
      started: 2,
      completed: 2,
      ttft_sum_s: 0.5 + 2,
      ttft_count: 2,
      itl_sum_s: 1,
      itl_count: 10,
      isl_sum: 1000,
      isl_count: 2,
      osl_sum: 12,
      osl_count: 2,
      dur_sum_s: 1.5 + 2,
      dur_count: 2,
    });
  });

  it('has its times to the first token at the workers of prompts, and all else at those that answer', () => {
    const totals = twoRequests();
    const poolOf = (role: 'aggregated' | 'prefill' | 'decode') => ({
      options: { role, engine: REFERENCE_ENGINE },
      workers: [],
    });
    expect(shareOf(poolOf('aggregated'), totals)).toEqual(totals);
    expect(shareOf(poolOf('decode'), totals)).toEqual({ ...totals, ttft_sum_s: 0, ttft_count: 0 });
    expect(shareOf(poolOf('prefill'), totals)).toMatchObject({
      ttft_sum_s: 2.5,
      ttft_count: 2,
      started: 0,
      isl_sum: 0,
    });
  });
});

describe('a pool of a simulated fleet', () => {
  it('reports the sums of the workers that serve', () => {
    const rank = (load: number, waiting: number, activeBlocks: number) => ({
      load,
      waiting,
      activeBlocks,
      lastPass: undefined,
    });
    const workers: RolledPool['pool']['workers'] = [
      { number: 0, state: 'ready', ranks: [rank(10, 8, 1024)] },
      { number: 1, state: 'ready', ranks: [rank(5, 1, 512)] },
      { number: 2, state: 'draining', ranks: [rank(50, 50, 2048)] },
    ];
    const pool = { options: { role: 'aggregated' as const, engine: REFERENCE_ENGINE }, workers };
    const rolled = rollUp({ pool, gpusPerReplica: 4, instanceOf: ({ number }) => `i-${number}` }, twoRequests());
    expect(rolled).toMatchObject({ running: 6, waiting: 9, behind: 1, kv_use: 1536 / 4096, has_passes: true });
    expect(rolled.engine).toMatchObject({ gpus: 4, max_kv_tokens: 2048 * 512, kv_block_size: 512 });
  });
});
