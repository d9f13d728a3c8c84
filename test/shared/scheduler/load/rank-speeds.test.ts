import { describe, expect, it } from 'vitest';
import { RankSpeeds } from '../../../../shared/scheduler/load/rank-speeds.ts';

const STEP_MS = 20;
const STEP_MS_PER_TOKEN = 1e-4;

function speedsOf(ranks: number): RankSpeeds {
  const speeds = new RankSpeeds();
  speeds.reserve(ranks);
  return speeds;
}

/** Ends a request of 101 tokens on a rank whose requests have that much context. */
function end(
  speeds: RankSpeeds,
  rank: number,
  contextTokens: number,
  more: { slowness?: number; prefills?: number } = {},
) {
  const { slowness = 1, prefills = 0 } = more;
  const decodeMs = 100 * slowness * (STEP_MS + STEP_MS_PER_TOKEN * contextTokens);
  const elapsedMs = decodeMs + prefills * speeds.msPerTokenOf(rank);
  speeds.learnEnd({ rank, elapsedMs, sinceStartMs: elapsedMs + 100, prefilledTokens: prefills, contextTokens }, 101);
}

describe('the speeds of ranks', () => {
  it('begin with those of a usual model and GPU, the same for each rank', () => {
    const speeds = speedsOf(2);
    expect(speeds.msPerToken).toBe(0.0207);
    expect(speeds.stepMs).toBeCloseTo(6, 6);
    expect(speeds.stepMsPerToken).toBeCloseTo(4e-5, 9);
    expect([...speeds.slowness]).toEqual([1, 1]);
  });

  it('learn how long a decode step takes, and how much longer with more context', () => {
    const speeds = speedsOf(1);
    for (let at = 0; at < 3000; at++) end(speeds, 0, (at % 10) * 50_000);
    expect(speeds.stepMs).toBeGreaterThan(0.9 * STEP_MS);
    expect(speeds.stepMs).toBeLessThan(1.1 * STEP_MS);
    expect(speeds.stepMsPerToken).toBeGreaterThan(0.9 * STEP_MS_PER_TOKEN);
    expect(speeds.stepMsPerToken).toBeLessThan(1.1 * STEP_MS_PER_TOKEN);
  });

  it('do not count the prefills of other requests as decoding', () => {
    const speeds = speedsOf(1);
    for (let at = 0; at < 3000; at++) end(speeds, 0, (at % 10) * 50_000, { prefills: 20_000 });
    expect(speeds.stepMs).toBeLessThan(1.1 * STEP_MS);
  });

  it('tell a slow rank from a fast one, from decoding and from prefills', () => {
    const decoding = speedsOf(2);
    for (let at = 0; at < 500; at++) end(decoding, at % 2, 100_000, { slowness: at % 2 === 0 ? 1 : 3 });
    expect(decoding.slowness[1]! / decoding.slowness[0]!).toBeGreaterThan(1.5);
    const prefilling = speedsOf(2);
    for (let at = 0; at < 2000; at++) prefilling.learnPrefill(at % 2, 4000, at % 2 === 0 ? 80 : 240);
    expect(prefilling.msPerTokenOf(1)).toBeGreaterThan(1.5 * prefilling.msPerTokenOf(0));
  });

  it('take ranks for equally fast that differ by no more than prompts and batches do', () => {
    const speeds = speedsOf(2);
    for (let at = 0; at < 2000; at++) speeds.learnPrefill(at % 2, 4000, at % 2 === 0 ? 80 : 96);
    expect([...speeds.slowness]).toEqual([1, 1]);
  });

  it('tell a rank that takes a third longer than the mean, although the slow ranks are half of the pool', () => {
    const speeds = speedsOf(4);
    for (let at = 0; at < 4000; at++) speeds.learnPrefill(at % 4, 4000, at % 2 === 0 ? 80 : 160);
    expect(speeds.slowness[1]! / speeds.slowness[0]!).toBeCloseTo(2, 1);
  });

  it('know a slow rank after a few requests', () => {
    const speeds = speedsOf(8);
    for (let at = 0; at < 80; at++) end(speeds, at % 8, 100_000, { slowness: at % 2 === 0 ? 1 : 2.5 });
    for (const rank of [1, 3, 5, 7]) {
      expect(speeds.slowness[rank]! / speeds.slowness[rank - 1]!).toBeGreaterThan(1.5);
    }
  });

  it('learn how much longer steps take with more context, although the slow ranks have little', () => {
    const speeds = speedsOf(2);
    for (let at = 0; at < 4000; at++) {
      const isSlow = at % 4 === 0;
      const contextTokens = (isSlow ? 50_000 : 350_000) + (at % 10) * 10_000;
      end(speeds, isSlow ? 1 : 0, contextTokens, { slowness: isSlow ? 2.5 : 1 });
    }
    const [fast, slow] = speeds.slowness;
    expect(slow! / fast!).toBeGreaterThan(1.9);
    expect(slow! / fast!).toBeLessThan(2.8);
    expect(fast! * speeds.stepMsPerToken).toBeGreaterThan(0.7 * STEP_MS_PER_TOKEN);
  });

  it('count each rank by its own speed if a quarter of the pool is slow', () => {
    const speeds = speedsOf(8);
    for (let at = 0; at < 8000; at++) speeds.learnPrefill(at % 8, 4000, at % 4 === 0 ? 136 : 80);
    expect(speeds.slowness[0]! / speeds.slowness[1]!).toBeCloseTo(1.7, 1);
  });

  it('leave the other ranks at the mean if few are slow', () => {
    const speeds = speedsOf(16);
    for (let at = 0; at < 16_000; at++) speeds.learnPrefill(at % 16, 4000, at % 16 === 0 ? 160 : 80);
    expect(speeds.slowness[0]).toBeGreaterThan(1.5);
    expect([...speeds.slowness.subarray(1, 16)]).toEqual(Array(15).fill(1));
  });

  it('take a rank for as fast as the others after one prefill that stood still', () => {
    const speeds = speedsOf(2);
    speeds.learnPrefill(0, 4000, 1e9);
    expect([...speeds.slowness]).toEqual([1, 1]);
  });

  it('forget a rank whose number another one gets', () => {
    const speeds = speedsOf(2);
    for (let at = 0; at < 2000; at++) speeds.learnPrefill(at % 2, 4000, at % 2 === 0 ? 80 : 240);
    speeds.forget(1);
    expect(speeds.slowness[1]).toBe(1);
  });

  it('learn nothing from short prefills, and believe no absurd one', () => {
    const speeds = speedsOf(1);
    speeds.learnPrefill(0, 2048, 100_000);
    expect(speeds.msPerToken).toBe(0.0207);
    speeds.learnPrefill(0, 4000, 1e9);
    expect(speeds.msPerToken).toBeLessThan(1.1 * 0.0207);
    for (let at = 0; at < 1000; at++) speeds.learnPrefill(0, 4000, 1e9);
    expect(speeds.msPerToken).toBeLessThanOrEqual(20);
  });

  it.each([0.3, 0.002])('learn the pace of any GPU: %f ms a token', (msPerToken) => {
    const speeds = speedsOf(1);
    for (let at = 0; at < 500; at++) speeds.learnPrefill(0, 4000, 4000 * msPerToken);
    expect(speeds.msPerToken / msPerToken).toBeCloseTo(1, 2);
  });

  it('stay nearly the same if some clients stop reading for minutes', () => {
    const speeds = speedsOf(3); // the third one gets no requests
    for (let at = 0; at < 2000; at++) end(speeds, at % 2, (at % 10) * 50_000, at % 17 > 0 ? {} : { slowness: 300 });
    expect([...speeds.slowness.subarray(0, 3)]).toEqual([1, 1, 1]);
    expect(speeds.stepMs).toBeLessThan(2 * STEP_MS);
  });

  it('count a request of days as one of minutes', () => {
    const speeds = speedsOf(1);
    const paused = { rank: 0, elapsedMs: 1e9, sinceStartMs: 1e9, prefilledTokens: 0, contextTokens: 1000 };
    speeds.learnEnd(paused, 400);
    speeds.learnFirstToken(1e9);
    expect(speeds.e2eMs).toBeLessThan(3000);
    expect(speeds.ttftMs).toBeLessThan(150);
  });

  it('learn the step but no slope from contexts that hardly differ', () => {
    const speeds = speedsOf(1);
    for (let at = 0; at < 20_000; at++) {
      const contextTokens = 1000 + (at % 2) * 10;
      const elapsedMs = 100 * (at % 2 === 0 ? STEP_MS - 1 : STEP_MS + 1);
      speeds.learnEnd({ rank: 0, elapsedMs, sinceStartMs: elapsedMs, prefilledTokens: 0, contextTokens }, 101);
    }
    expect(speeds.stepMs + 1000 * speeds.stepMsPerToken).toBeCloseTo(STEP_MS, 0);
    expect(speeds.stepMsPerToken).toBeLessThan(1e-3);
  });

  it('weigh a millisecond of decoding by the share of first tokens in the time of requests', () => {
    const speeds = speedsOf(1);
    const span = { rank: 0, elapsedMs: 3700, sinceStartMs: 4000, prefilledTokens: 0, contextTokens: 1000 };
    for (let at = 0; at < 1000; at++) {
      speeds.learnFirstToken(300);
      speeds.learnEnd(span, 400);
    }
    expect(speeds.firstTokenShare).toBeCloseTo(300 / 4300, 3);
    expect(speeds.outputTokens).toBeCloseTo(400, 3);
  });
});
