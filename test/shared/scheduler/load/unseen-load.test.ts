import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import { UnseenLoad } from '../../../../shared/scheduler/load/unseen-load.ts';

const LAG_MS = 20;

/** Bursts of one own decision at rank 0, and of `others` bookings that arrive `afterMs` later. */
function bursts(others: number, afterMs: number, rank = 1): UnseenLoad {
  const unseen = new UnseenLoad(() => LAG_MS);
  for (let burst = 0; burst < 100; burst++) {
    unseen.decided(1000 * burst, 0);
    for (let other = 0; other < others; other++) unseen.booked(4000, 1000 * burst + afterMs, rank);
  }
  unseen.decided(1_000_000, 0);
  return unseen;
}

/** Tokens that 1,000 draws put on each candidate. */
function drawn(unseen: UnseenLoad, backlogs: readonly number[]): number[] {
  const random = seededRandom(3);
  const sums = backlogs.map(() => 0);
  for (let at = 0; at < 1000; at++) {
    if (!unseen.draw(Float64Array.from(backlogs), backlogs.length, random)) continue;
    sums.forEach((sum, candidate) => {
      sums[candidate] = sum + (unseen.tokens[candidate] as number);
    });
  }
  return sums;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

describe('the load that other routers may have sent', () => {
  it('is as many bookings as arrive within the delay of messages', () => {
    expect(bursts(9, LAG_MS).mean).toBeCloseTo(9, 1);
    const total = sum(drawn(bursts(9, LAG_MS), [0, 0, 0, 0]));
    expect(total / 1000 / 4000).toBeCloseTo(9, 0);
  });

  it('is nothing if bookings arrive later, because this router did not decide at the same time', () => {
    const unseen = bursts(9, LAG_MS + 1);
    expect(unseen.mean).toBe(0);
    expect(sum(drawn(unseen, [0, 0]))).toBe(0);
  });

  it('collides with own decisions only at the rank that they chose', () => {
    expect(bursts(9, LAG_MS, 0).collidedTokens).toBeCloseTo(9 * 4000, -2);
    expect(bursts(9, LAG_MS, 1).collidedTokens).toBe(0);
    expect(bursts(9, LAG_MS + 1, 0).collidedTokens).toBe(0);
  });

  it('is nothing if there is no other router', () => {
    expect(sum(drawn(bursts(0, 0), [0, 0]))).toBe(0);
  });

  it('goes mostly where there is little to compute', () => {
    const [busy = 0, idle = 0] = drawn(bursts(1, 0), [100_000, 0]);
    expect(idle).toBeGreaterThan(3 * busy);
  });

  it('stays bounded, however many bookings arrive', () => {
    const unseen = new UnseenLoad(() => 1e9);
    for (let at = 0; at < 10_000; at++) {
      unseen.decided(at, 0);
      unseen.booked(1000, at, 0);
    }
    expect(unseen.draw(new Float64Array(8), 8, seededRandom(1))).toBe(true);
    expect(sum([...unseen.tokens])).toBeLessThanOrEqual(64 * 1000);
  });
});
