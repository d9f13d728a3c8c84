import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { VirtualClock } from './virtual-clock.ts';

describe('VirtualClock', () => {
  it('moves only when a test advances it', async () => {
    const clock = new VirtualClock(1000);
    expect([clock.nowMs(), clock.wallMs()]).toEqual([0, 1000]);
    await clock.advance(2.5);
    expect([clock.nowMs(), clock.wallMs()]).toEqual([2.5, 1002]);
  });

  it('shows each timer the time at which it was due', async () => {
    const clock = new VirtualClock();
    const seen: number[] = [];
    clock.after(30, () => seen.push(clock.nowMs()));
    clock.after(10, () => seen.push(clock.nowMs()));
    await clock.advance(100);
    expect(seen).toEqual([10, 30]);
    expect(clock.nowMs()).toBe(100);
  });

  it('fires timers that others arm while it advances, when they fall due in time', async () => {
    const clock = new VirtualClock();
    const seen: string[] = [];
    clock.after(10, () => {
      clock.after(5, () => seen.push('in time'));
      clock.after(50, () => seen.push('too late'));
    });
    await clock.advance(20);
    expect(seen).toEqual(['in time']);
    expect(clock.pendingTimers).toBe(1);
  });

  it('runs a period until cancelled, also from inside of its callback', async () => {
    const clock = new VirtualClock();
    let runs = 0;
    const timer = clock.every(10, () => {
      runs++;
      if (runs === 3) timer.cancel();
    });
    await clock.advance(100);
    expect(runs).toBe(3);
    expect(clock.pendingTimers).toBe(0);
    timer.cancel();
  });

  it('reaches its end with a period of zero', async () => {
    const clock = new VirtualClock();
    let runs = 0;
    clock.every(0, () => runs++);
    await clock.advance(5);
    expect(runs).toBe(5);
  });

  it('lets code that slept go on before the next timer fires', async () => {
    const clock = new VirtualClock();
    const seen: string[] = [];
    const sleeper = clock.sleep(10).then(() => seen.push(`woke at ${clock.nowMs()}`));
    clock.after(11, () => seen.push('timer'));
    await clock.advance(20);
    await sleeper;
    expect(seen).toEqual(['woke at 10', 'timer']);
  });

  it('fires what a naive sorted list fires, in its order', async () => {
    const plan = fc.array(fc.record({ delayMs: fc.integer({ min: 0, max: 20 }), isCancelled: fc.boolean() }), {
      maxLength: 20,
    });
    await fc.assert(
      fc.asyncProperty(plan, fc.integer({ min: 0, max: 25 }), async (timers, untilMs) => {
        const clock = new VirtualClock();
        const fired: number[] = [];
        timers.forEach(({ delayMs, isCancelled }, index) => {
          const timer = clock.after(delayMs, () => fired.push(index));
          if (isCancelled) timer.cancel();
        });
        await clock.advance(untilMs);
        const expected = timers
          .map((timer, index) => ({ ...timer, index }))
          .filter(({ delayMs, isCancelled }) => !isCancelled && delayMs <= untilMs)
          .sort((a, b) => a.delayMs - b.delayMs || a.index - b.index);
        expect(fired).toEqual(expected.map(({ index }) => index));
        expect(clock.pendingTimers).toBe(timers.filter(({ isCancelled }) => !isCancelled).length - fired.length);
      }),
    );
  });
});
