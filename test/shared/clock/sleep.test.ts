import { describe, expect, it, vi } from 'vitest';
import { type Clock, systemClock } from '../../../shared/clock/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const reason = new Error('enough');

describe.each<[string, () => Clock]>([
  ['the machine’s clock', () => systemClock],
  ['a virtual clock', () => new VirtualClock()],
])('sleeping on %s', (_name, makeClock) => {
  it('rejects with the signal’s reason when it was aborted before', async () => {
    await expect(makeClock().sleep(1000, AbortSignal.abort(reason))).rejects.toBe(reason);
  });

  it('rejects with the signal’s reason when it aborts meanwhile', async () => {
    const controller = new AbortController();
    const sleep = makeClock().sleep(1000, controller.signal);
    controller.abort(reason);
    await expect(sleep).rejects.toBe(reason);
  });
});

describe('a sleep that was aborted', () => {
  it('leaves no timer behind', async () => {
    const clock = new VirtualClock();
    const controller = new AbortController();
    const sleep = clock.sleep(1000, controller.signal);
    controller.abort(reason);
    await expect(sleep).rejects.toBe(reason);
    expect(clock.pendingTimers).toBe(0);
  });

  it('leaves no listener behind when it was not', async () => {
    const clock = new VirtualClock();
    const { signal } = new AbortController();
    const removed = vi.spyOn(signal, 'removeEventListener');
    const sleep = clock.sleep(10, signal);
    await clock.advance(10);
    await sleep;
    expect(removed).toHaveBeenCalledOnce();
  });
});

describe('the machine’s clock', () => {
  it('fires soon, and not before its time', async () => {
    const startMs = systemClock.nowMs();
    await new Promise<void>((resolve) => systemClock.after(5, resolve));
    expect(systemClock.nowMs() - startMs).toBeGreaterThanOrEqual(4);
  });

  it('does not take a delay of months for none', async () => {
    let hasFired = false;
    const timer = systemClock.after(2 ** 40, () => {
      hasFired = true;
    });
    await new Promise<void>((resolve) => systemClock.after(5, resolve));
    timer.cancel();
    expect(hasFired).toBe(false);
  });

  it('stops a period when cancelled', async () => {
    let runs = 0;
    await new Promise<void>((resolve) => {
      const timer = systemClock.every(1, () => {
        runs++;
        timer.cancel();
        systemClock.after(5, resolve);
      });
    });
    expect(runs).toBe(1);
  });
});
