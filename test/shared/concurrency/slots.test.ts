import { describe, expect, it } from 'vitest';
import { Slots } from '../../../shared/concurrency/index.ts';

describe('slots', () => {
  it('let no more run at once than there are, in the order they came', async () => {
    const slots = new Slots(2);
    const begun: number[] = [];
    const ends: (() => void)[] = [];
    const all = [0, 1, 2, 3].map((at) =>
      slots.run(undefined, async () => {
        begun.push(at);
        await new Promise<void>((resolve) => ends.push(resolve));
        return at;
      }),
    );
    await Promise.resolve();
    expect(begun).toEqual([0, 1]);
    for (let ended = 0; ended < 4; ended++) {
      ends[ended]?.();
      await all[ended];
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(begun).toEqual([0, 1, 2, 3]);
    expect(await Promise.all(all)).toEqual([0, 1, 2, 3]);
  });

  it('are given back by what fails', async () => {
    const slots = new Slots(1);
    await expect(slots.run(undefined, () => Promise.reject(new Error('broken')))).rejects.toThrow('broken');
    expect(await slots.run(undefined, async () => 'next')).toBe('next');
  });

  it('are left by who waits no longer', async () => {
    const slots = new Slots(1);
    let end = (): void => {};
    const first = slots.run(undefined, () => new Promise<void>((resolve) => (end = resolve)));
    const aborter = new AbortController();
    let hasBegun = false;
    const second = slots.run(aborter.signal, async () => {
      hasBegun = true;
    });
    aborter.abort(new Error('the client left'));
    await expect(second).rejects.toThrow('the client left');
    end();
    await first;
    expect(await slots.run(undefined, async () => 'third')).toBe('third');
    expect(hasBegun).toBe(false);
  });
});
