import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import { LeaseKeeper } from '../../../shared/discovery/lease-keeper.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const TTL_MS = 10_000;

/** A keeper over a store that answers as `renew` says; `log` tells when each thing happened. */
function keep(renew: (clock: VirtualClock, signal: AbortSignal) => Promise<void>) {
  const clock = new VirtualClock();
  const log: string[] = [];
  const renewedAtMs: number[] = [];
  const keeper = new LeaseKeeper({
    clock,
    random: seededRandom(7),
    ttlMs: TTL_MS,
    renew: (signal) => {
      renewedAtMs.push(clock.nowMs());
      return renew(clock, signal);
    },
    report: (problem) => log.push(problem.message),
  });
  keeper.onLost(() => log.push(`lost at ${clock.nowMs()}`));
  keeper.onRegained(() => log.push('regained'));
  keeper.begin(clock.nowMs());
  return { clock, log, renewedAtMs, keeper };
}

describe('LeaseKeeper', () => {
  it('renews every third of the time to live, give or take a tenth', async () => {
    const { clock, log, renewedAtMs } = keep(async () => {});
    await clock.advance(600_000);
    const gapsMs = renewedAtMs.map((atMs, at) => atMs - (renewedAtMs[at - 1] ?? 0));
    expect(Math.min(...gapsMs)).toBeGreaterThanOrEqual(3000);
    expect(Math.max(...gapsMs)).toBeLessThanOrEqual(3667);
    expect(new Set(gapsMs).size).toBeGreaterThan(100);
    expect(log).toEqual([]);
  });

  it('loses the lease at its own deadline when nothing succeeds, and tells once', async () => {
    const { clock, log } = keep(() => Promise.reject(new Error('no route')));
    await clock.advance(60_000);
    expect(log.filter((line) => line.startsWith('lost'))).toEqual([`lost at ${TTL_MS}`]);
    expect(log).toContain('a discovery lease was not renewed: no route');
  });

  it('retries with back-off: soon at first, never more often than a renewal in the long run', async () => {
    const { clock, renewedAtMs } = keep(() => Promise.reject(new Error('no route')));
    await clock.advance(120_000);
    const gapsMs = renewedAtMs.map((atMs, at) => Math.round(atMs - (renewedAtMs[at - 1] ?? 0))).slice(1);
    expect(gapsMs[0]).toBeLessThan(200);
    expect(Math.max(...gapsMs.filter((_, at) => (renewedAtMs[at + 1] ?? 0) <= TTL_MS))).toBe(833);
    expect(gapsMs.at(-1)).toBe(3333);
    expect(gapsMs).toEqual(gapsMs.toSorted((a, b) => a - b));
  });

  it('survives failures that end before the deadline without a word of loss', async () => {
    const { clock, log } = keep((at) => (at.nowMs() < 8000 ? Promise.reject(new Error('away')) : Promise.resolve()));
    await clock.advance(60_000);
    expect(log.filter((line) => !line.includes('away'))).toEqual([]);
  });

  it('tells of the lease regained after a loss, and of a second loss', async () => {
    let isAway = true;
    const { clock, log } = keep(() => (isAway ? Promise.reject(new Error('away')) : Promise.resolve()));
    const changes = (): string[] => log.filter((line) => !line.includes('away'));
    await clock.advance(15_000);
    isAway = false;
    await clock.advance(5_000);
    expect(changes()).toEqual(['lost at 10000', 'regained']);
    isAway = true;
    await clock.advance(30_000);
    expect(changes()).toHaveLength(3);
  });

  it('gives up a renewal that does not answer, so that the next one can', async () => {
    let calls = 0;
    const { clock, log } = keep((_, signal) =>
      calls++ === 0
        ? new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
        : Promise.resolve(),
    );
    await clock.advance(60_000);
    expect(log).toEqual(['a discovery lease was not renewed: the lease renewal timed out']);
    expect(calls).toBeGreaterThan(10);
  });

  it('does not count a renewal whose answer came after the time it bought', async () => {
    let calls = 0;
    const { clock, log } = keep((at) => (calls++ === 0 ? at.sleep(TTL_MS + 1) : Promise.resolve()));
    await clock.advance(60_000);
    expect(log).toEqual([`lost at ${TTL_MS}`, 'regained']);
  });

  it('leaves no timer behind when stopped, also in the middle of a renewal', async () => {
    const { clock, keeper, log } = keep(
      (_, signal) => new Promise((_, reject) => signal.addEventListener('abort', reject)),
    );
    await clock.advance(4000);
    keeper.stop();
    await clock.advance(0);
    expect(clock.pendingTimers).toBe(0);
    expect(log).toEqual([]);
  });

  describe('with news to carry', () => {
    it('renews at once the first time, then once a second while more comes', async () => {
      const { clock, renewedAtMs, keeper } = keep(async () => {});
      for (let at = 0; at < 100; at++) {
        keeper.hasten();
        await clock.advance(50);
      }
      expect(renewedAtMs).toEqual([0, 1000, 2000, 3000, 4000, 5000]);
    });

    it('goes back to a third of the time to live when no more comes', async () => {
      const { clock, renewedAtMs, keeper } = keep(async () => {});
      keeper.hasten();
      await clock.advance(30_000);
      expect(renewedAtMs[0]).toBe(0);
      expect(renewedAtMs[1]).toBeGreaterThanOrEqual(3000);
    });

    it('renews again for what came while a renewal was under way', async () => {
      const { clock, renewedAtMs, keeper } = keep((at) => at.sleep(200));
      keeper.hasten();
      await clock.advance(100);
      keeper.hasten();
      await clock.advance(1500);
      expect(renewedAtMs).toEqual([0, 1000]);
    });

    it('retries no sooner than without', async () => {
      const { clock, renewedAtMs, keeper } = keep(() => Promise.reject(new Error('no route')));
      const {
        renewedAtMs: quiet,
        clock: quietClock,
        keeper: quietKeeper,
      } = keep(() => Promise.reject(new Error('no')));
      keeper.hasten();
      quietKeeper.hasten();
      for (let at = 0; at < 600; at++) {
        await clock.advance(100);
        keeper.hasten();
      }
      await quietClock.advance(60_000);
      expect(renewedAtMs).toEqual(quiet);
    });
  });
});
