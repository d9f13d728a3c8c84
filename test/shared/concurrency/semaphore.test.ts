import { describe, expect, it } from 'vitest';
import { Semaphore } from '../../../shared/concurrency/index.ts';

describe('Semaphore', () => {
  it('lets no more run at once than there are, in the order they came', async () => {
    const semaphore = new Semaphore(2);
    const begun: number[] = [];
    const ends: (() => void)[] = [];
    const all = [0, 1, 2, 3].map((at) =>
      semaphore.run(async () => {
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

  it('gives its slot back by what fails', async () => {
    const semaphore = new Semaphore(1);
    await expect(semaphore.run(() => Promise.reject(new Error('broken')))).rejects.toThrow('broken');
    expect(await semaphore.run(async () => 'next')).toBe('next');
  });

  it('are left by who waits no longer', async () => {
    const semaphore = new Semaphore(1);
    let end = (): void => {};
    const first = semaphore.run(() => new Promise<void>((resolve) => (end = resolve)));
    const aborter = new AbortController();
    let hasBegun = false;
    const second = semaphore.run(async () => {
      hasBegun = true;
    }, aborter.signal);
    aborter.abort(new Error('the client left'));
    await expect(second).rejects.toThrow('the client left');
    end();
    await first;
    expect(await semaphore.run(async () => 'third')).toBe('third');
    expect(hasBegun).toBe(false);
  });
});
