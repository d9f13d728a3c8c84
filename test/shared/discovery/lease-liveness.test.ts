import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LeaseLiveness, type LeaseRow } from '../../../shared/discovery/dynamodb/lease-scan.ts';

const TTL_MS = 10_000;
const SKEW_MS = 1000;
const row = (expiresAtMs: number, epoch = 1): LeaseRow => ({ leaseId: 'a', epoch, expiresAtMs, ttlMs: TTL_MS });

describe('LeaseLiveness', () => {
  it('sees a crash one poll after the time to live', () => {
    const liveness = new LeaseLiveness(SKEW_MS);
    // The worker renews at -3.3 s and at 0 s, then crashes; the reader polls every second.
    liveness.observe(row(6700), -500, -500);
    const aliveAtS = [];
    for (let second = 0.5; second < 15; second++) {
      if (liveness.observe(row(10_000), second * 1000, second * 1000)) aliveAtS.push(second);
    }
    expect(aliveAtS.at(-1)).toBe(9.5);
  });

  it('judges a first look by table time and the skew allowance', () => {
    const isAliveAt = (tableNowMs: number): boolean => new LeaseLiveness(SKEW_MS).observe(row(10_000), 0, tableNowMs);
    expect(isAliveAt(9000)).toBe(true);
    expect(isAliveAt(11_000)).toBe(true);
    expect(isAliveAt(11_001)).toBe(false);
  });

  it('trusts a lease that it met only once for one time to live at most, whatever it claims', () => {
    const liveness = new LeaseLiveness(SKEW_MS);
    const farFuture = row(1_000_000_000);
    const aliveAtS = [];
    for (let second = 0; second < 20; second++)
      if (liveness.observe(farFuture, second * 1000, 0)) aliveAtS.push(second);
    expect(aliveAtS.at(-1)).toBe(9);
  });

  it('is right about a living and a dead writer whose clock is wrong by hours', () => {
    fc.assert(
      fc.property(fc.integer({ min: -7_200_000, max: 7_200_000 }), (writerSkewMs) => {
        const liveness = new LeaseLiveness(SKEW_MS);
        const crashAtMs = 60_000;
        for (let nowMs = 0; nowMs < 120_000; nowMs += 1000) {
          const renewedAtMs = Math.floor(Math.min(nowMs, crashAtMs) / 3300) * 3300;
          const isAlive = liveness.observe(row(renewedAtMs + TTL_MS + writerSkewMs), nowMs, nowMs);
          const isSettled = nowMs >= 4000; // seen to change at least once
          if (isSettled && nowMs <= crashAtMs) expect(isAlive).toBe(true);
          if (nowMs > crashAtMs + TTL_MS + 1000) expect(isAlive).toBe(false);
        }
      }),
    );
  });

  it('takes a holder back that renews again', () => {
    const liveness = new LeaseLiveness(SKEW_MS);
    liveness.observe(row(10_000), 0, 0);
    expect(liveness.observe(row(10_000), 10_000, 20_000)).toBe(false);
    expect(liveness.observe(row(31_000), 11_000, 21_000)).toBe(true);
  });

  it('looks afresh, by table time, after not having looked for longer than the time to live', () => {
    const liveness = new LeaseLiveness(SKEW_MS);
    liveness.observe(row(10_000), 0, 0);
    expect(liveness.observe(row(590_000), 600_000, 600_000)).toBe(false); // renewed meanwhile, and dead since
    expect(liveness.observe(row(590_000, 2), 601_000, 580_000)).toBe(true);
  });

  it('does not take an outage for the death of everyone, but sees who died in it one time to live later', () => {
    const liveness = new LeaseLiveness(SKEW_MS);
    liveness.observe(row(6700), 0, 0);
    liveness.observe(row(10_000), 1000, 1000);
    const backAtMs = 61_000;
    liveness.excuseOutage(backAtMs);
    expect(liveness.observe(row(10_000), backAtMs, backAtMs)).toBe(true);
    expect(liveness.observe(row(10_000), backAtMs + TTL_MS - 1, backAtMs + TTL_MS)).toBe(true);
    expect(liveness.observe(row(10_000), backAtMs + TTL_MS, backAtMs + TTL_MS)).toBe(false);
  });
});
