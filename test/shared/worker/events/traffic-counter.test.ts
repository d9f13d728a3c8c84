import { describe, expect, it } from 'vitest';
import { NO_TRAFFIC } from '../../../../shared/protocol/index.ts';
import { TrafficCounter, UNSEEN } from '../../../../shared/worker/events/rollup-reporter.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

function bed() {
  const clock = new VirtualClock();
  return { clock, counter: new TrafficCounter(clock) };
}

describe('the traffic of a worker', () => {
  it('is what requests asked for, and how long they took', async () => {
    const { clock, counter } = bed();
    const meter = counter.begin(100, false);
    meter.cached(64);
    await clock.advance(500);
    meter.firstOutput();
    await clock.advance(1900);
    meter.end(true, 20);
    expect(counter.totals).toEqual({
      started: 1,
      completed: 1,
      isl_sum: 100,
      isl_count: 1,
      osl_sum: 20,
      osl_count: 1,
      ttft_sum_s: 0.5,
      ttft_count: 1,
      itl_sum_s: 1.9,
      itl_count: 19,
      dur_sum_s: 2.4,
      dur_count: 1,
      kv_hit_sum: 64,
      kv_hit_count: 100,
    });
  });

  it('counts a request that begins before it ends', () => {
    const { counter } = bed();
    counter.begin(10, false);
    expect(counter.totals).toEqual({ ...NO_TRAFFIC, started: 1, isl_sum: 10, isl_count: 1 });
  });

  it('does not count a request again that another worker had, but what is done for it', async () => {
    const { clock, counter } = bed();
    const meter = counter.begin(10, true);
    counter.refused(true);
    await clock.advance(100);
    meter.firstOutput();
    meter.end(true, 5);
    expect(counter.totals).toMatchObject({ started: 0, isl_count: 0, completed: 1, osl_sum: 5, ttft_count: 1 });
  });

  it('counts a request that was not taken as demand alone', () => {
    const { counter } = bed();
    counter.refused(false);
    expect(counter.totals).toEqual({ ...NO_TRAFFIC, started: 1 });
  });

  it('does not take a broken answer for a whole one, but its tokens for their time', async () => {
    const { clock, counter } = bed();
    const meter = counter.begin(10, false);
    meter.firstOutput();
    await clock.advance(300);
    meter.end(false, 4);
    expect(counter.totals).toMatchObject({ completed: 0, osl_count: 0, dur_count: 0, itl_sum_s: 0.3, itl_count: 3 });
  });

  it.each([0, 1])('has no time between tokens of an answer of %d', async (tokens) => {
    const { clock, counter } = bed();
    const meter = counter.begin(10, false);
    meter.firstOutput();
    await clock.advance(50);
    meter.end(true, tokens);
    expect(counter.totals).toMatchObject({ itl_sum_s: 0, itl_count: 0, osl_sum: tokens, completed: 1 });
  });

  it('has no time between tokens of an answer whose beginning was not seen', () => {
    const { counter } = bed();
    counter.begin(10, false).end(true, 9);
    expect(counter.totals).toMatchObject({ ttft_count: 0, itl_count: 0, osl_sum: 9 });
  });

  it('never has more tokens in the cache than the prompt has', () => {
    const { counter } = bed();
    counter.begin(10, false).cached(16);
    expect(counter.totals).toMatchObject({ kv_hit_sum: 10, kv_hit_count: 10 });
  });

  it('shows what it was at the time, and keeps requests apart', async () => {
    const { clock, counter } = bed();
    const one = counter.begin(10, false);
    const before = counter.totals;
    await clock.advance(100);
    const other = counter.begin(20, false);
    await clock.advance(100);
    other.firstOutput();
    one.firstOutput();
    expect(before.started).toBe(1);
    expect(counter.totals).toMatchObject({ started: 2, isl_sum: 30 });
    expect(counter.totals.ttft_sum_s).toBeCloseTo(0.3);
  });

  it('leaves out requests that it does not follow', () => {
    UNSEEN.firstOutput();
    UNSEEN.cached(3);
    UNSEEN.end(true, 3);
    expect(bed().counter.totals).toEqual(NO_TRAFFIC);
  });
});
