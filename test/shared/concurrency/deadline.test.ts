import { describe, expect, it } from 'vitest';
import { forAtMost, untilAborted, withDeadline } from '../../../shared/concurrency/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const never = (): Promise<never> => new Promise(() => {});

describe('untilAborted', () => {
  it('settles as the work does', async () => {
    const { signal } = new AbortController();
    expect(await untilAborted(Promise.resolve('done'), signal)).toBe('done');
    await expect(untilAborted(Promise.reject(new Error('broken')), signal)).rejects.toThrow('broken');
  });

  it('rejects with the reason of a signal that aborts before, or has aborted', async () => {
    const controller = new AbortController();
    const waiting = untilAborted(never(), controller.signal);
    controller.abort(new Error('gone'));
    await expect(waiting).rejects.toThrow('gone');
    await expect(untilAborted(Promise.reject(new Error('unheard')), controller.signal)).rejects.toThrow('gone');
  });
});

describe('withDeadline', () => {
  it('gives what the work gives, and leaves no timer behind', async () => {
    const clock = new VirtualClock();
    expect(await withDeadline({ clock, timeoutMs: 10 }, async () => 'done')).toBe('done');
    await expect(withDeadline({ clock, timeoutMs: 10 }, () => Promise.reject(new Error('broken')))).rejects.toThrow(
      'broken',
    );
    expect(clock.pendingTimers).toBe(0);
  });

  it('ends work that does not heed its signal when its time is over', async () => {
    const clock = new VirtualClock();
    let given: AbortSignal | undefined;
    const late = withDeadline({ clock, timeoutMs: 10, lateMessage: 'no answer' }, (signal) => {
      given = signal;
      return never();
    });
    const seen = expect(late).rejects.toThrow('no answer');
    await clock.advance(9);
    expect(given?.aborted).toBe(false);
    await clock.advance(1);
    await seen;
    expect(given?.aborted).toBe(true);
  });

  it('ends the work with the outer signal, and begins none for one that has aborted', async () => {
    const clock = new VirtualClock();
    const controller = new AbortController();
    const { signal } = controller;
    const left = withDeadline({ clock, timeoutMs: 10, signal }, never);
    controller.abort(new Error('left'));
    await expect(left).rejects.toThrow('left');
    let begun = 0;
    await expect(
      withDeadline({ clock, timeoutMs: 10, signal }, async () => {
        begun++;
      }),
    ).rejects.toThrow('left');
    expect(begun).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('forAtMost', () => {
  it('says whether the work came to its end', async () => {
    const clock = new VirtualClock();
    expect(await forAtMost({ clock, timeoutMs: 10 }, async () => 1)).toBe(true);
    const late = forAtMost({ clock, timeoutMs: 10 }, never);
    await clock.advance(10);
    expect(await late).toBe(false);
  });

  it('fails as the work does, and with the reason of the outer signal', async () => {
    const clock = new VirtualClock();
    const controller = new AbortController();
    await expect(forAtMost({ clock, timeoutMs: 10 }, () => Promise.reject(new Error('broken')))).rejects.toThrow(
      'broken',
    );
    const left = forAtMost({ clock, timeoutMs: 10, signal: controller.signal }, never);
    controller.abort(new Error('left'));
    await expect(left).rejects.toThrow('left');
  });
});
