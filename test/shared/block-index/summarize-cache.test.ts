import { describe, expect, it } from 'vitest';
import { BlockIndex, summarizeCache } from '../../../shared/block-index/index.ts';
import { longPrompt, prompt, store, tableOf } from './prompts.ts';

const { signal } = new AbortController();

describe('the summary of a cache', () => {
  it('counts blocks by tier, and names the prefixes that prompts share', async () => {
    const index = new BlockIndex({ ranks: tableOf(2) });
    for (const last of [10, 11, 12]) store(index, 0, prompt(1, 2, 3, last));
    for (const last of [20, 21]) store(index, 0, prompt(1, 2, 3, 10, last));
    store(index, 0, prompt(50, 51));
    store(index, 0, prompt(50, 51), { tier: 'host_pinned' });
    store(index, 1, prompt(1, 2));
    const { prefixes, ...counts } = await summarizeCache(index.dump(0), signal);
    expect(counts).toEqual({ device: 10, host: 2, disk: 0, isWhole: true });
    expect(prefixes.slice(0, 2)).toMatchObject([
      { depth: 3, branches: 4, below: 5 },
      { depth: 4, branches: 2, below: 2 },
    ]);
    expect(prefixes).toContainEqual(expect.objectContaining({ depth: 2, branches: 1, below: 0 }));
    expect(prefixes[0]?.hash).toMatch(/^[0-9a-f]{16}$/);
  });

  it('says if it has not looked at everything, and has at most ten prefixes', async () => {
    const index = new BlockIndex({ ranks: tableOf(1) });
    for (let at = 0; at < 15; at++) store(index, 0, longPrompt(at + 1, 20_000));
    const { device, isWhole, prefixes } = await summarizeCache(index.dump(0), signal);
    expect(isWhole).toBe(false);
    expect(device).toBeLessThan(300_000);
    expect(prefixes).toHaveLength(10);
  });

  it('ends when it is cancelled', async () => {
    const index = new BlockIndex({ ranks: tableOf(1) });
    store(index, 0, longPrompt(1, 20_000));
    const ended = new AbortController();
    const summary = summarizeCache(index.dump(0), ended.signal);
    ended.abort(new Error('the client left'));
    await expect(summary).rejects.toThrow('the client left');
  });
});
