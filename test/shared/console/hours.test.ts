import { describe, expect, it } from 'vitest';
import { Hours } from '../../../shared/console/hours.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const ENDED = { isFailed: false, promptTokens: 100, cachedTokens: 25, outputTokens: 60, ttftMs: 80, itlMs: 12 };

function bed() {
  const clock = new VirtualClock();
  const tokens = new Map<string, number>();
  const hours = new Hours(clock, (model) => tokens.get(model) ?? 0);
  return { clock, tokens, hours };
}

describe('the last hour', () => {
  it('has the figures of the last minute, by model and of all', async () => {
    const { clock, tokens, hours } = bed();
    await clock.advance(3_600_000);
    for (let at = 0; at < 60; at++) {
      hours.ended('a', ENDED);
      hours.ended('b', { ...ENDED, isFailed: at % 4 === 0, ttftMs: 400 });
      await clock.advance(1000);
    }
    tokens.set('a', 6000);
    hours.countTokens('a');
    const all = hours.of(undefined).figures();
    expect(all.requests_per_second).toBeCloseTo(2, 0);
    expect(all.failed_share).toBeCloseTo(0.125, 1);
    expect(all.hit_rate).toBe(0.25);
    expect(hours.own('a')?.figures().ttft_ms?.p50).toBeLessThan(110);
    expect(hours.own('b')?.figures().ttft_ms?.p50).toBeGreaterThan(300);
    expect(hours.own('a')?.figures().tokens_per_second).toBeGreaterThan(90);
    await clock.advance(120_000);
    expect(hours.of(undefined).figures()).toMatchObject({ requests_per_second: 0, hit_rate: null, ttft_ms: null });
  });

  it('has a step for each ten seconds since the start, at most 360, and forgets older ones', async () => {
    const { clock, hours } = bed();
    hours.noteWorkers(2);
    hours.ended('a', ENDED);
    await clock.advance(25_000);
    hours.noteWorkers(5);
    await clock.advance(10_000);
    expect(hours.of('a').series().requests_per_second).toEqual([0.1, 0, 0]);
    expect(hours.workers(3)).toEqual([2, 2, 5]);
    await clock.advance(3_600_000);
    const { requests_per_second: requests, ttft_p50_ms: ttft } = hours.of('a').series();
    expect(requests).toHaveLength(360);
    expect(Math.max(...requests)).toBe(0);
    expect(ttft.every((each) => each === null)).toBe(true);
    expect(hours.workers(360).at(-1)).toBe(5);
  });

  it('keeps the oldest step until the present one has ended', async () => {
    const { clock, hours } = bed();
    hours.ended('a', ENDED);
    await clock.advance(3_600_000);
    expect(hours.of('a').series().requests_per_second[0]).toBe(0.1);
    hours.ended('a', ENDED);
    expect(hours.of('a').series().requests_per_second[0]).toBe(0.1);
  });

  it('sums models beyond the first 32 without a series for each', () => {
    const { hours } = bed();
    for (let at = 0; at < 40; at++) hours.ended(`m${at}`, ENDED);
    expect(hours.own('m31')).toBeDefined();
    expect(hours.own('m32')).toBeUndefined();
    expect(hours.of(undefined).figures().requests_per_second).toBe(40);
  });

  it('counts the tokens of every model in the sum, also if a model has no hour of its own', async () => {
    const { clock, tokens, hours } = bed();
    await clock.advance(3_600_000);
    for (let at = 0; at < 40; at++) {
      tokens.set(`m${at}`, 60);
      hours.ended(`m${at}`, ENDED);
    }
    await clock.advance(59_000);
    expect(hours.own('m39')).toBeUndefined();
    expect(hours.of(undefined).figures().tokens_per_second).toBeCloseTo((40 * 60) / 59, -1);
  });

  it('leaves the place of a model without requests for an hour to another one', async () => {
    const { clock, tokens, hours } = bed();
    for (let at = 0; at < 32; at++) hours.ended(`m${at}`, ENDED);
    hours.ended('late', ENDED);
    expect(hours.own('late')).toBeUndefined();
    await clock.advance(3_600_000);
    hours.ended('m1', ENDED);
    tokens.set('late', 1_000_000);
    hours.ended('late', ENDED);
    expect(hours.own('late')?.figures()).toMatchObject({ tokens_per_second: 0, hit_rate: 0.25 });
    expect(hours.own('m0')).toBeUndefined();
    expect(hours.own('m1')).toBeDefined();
  });

  it('asks for no tokens of a request that named no model, so that it makes no series of metrics', () => {
    const asked: string[] = [];
    const hours = new Hours(new VirtualClock(), (model) => asked.push(model));
    hours.ended('', { ...ENDED, isFailed: true });
    expect(asked).toEqual([]);
    expect(hours.of(undefined).figures().failed_share).toBe(1);
  });
});
