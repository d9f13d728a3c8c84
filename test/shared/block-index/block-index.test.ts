import { describe, expect, it } from 'vitest';
import { BlockIndex, type StoredRun } from '../../../shared/block-index/index.ts';
import { deviceOf, dumpOf, longPrompt, overlapsOf, prompt, remove, store, tableOf } from './prompts.ts';

describe('block index, what events do', () => {
  it('refuses a store that names its own parent, or a block twice, and changes nothing', () => {
    const index = new BlockIndex({ ranks: tableOf(1) });
    store(index, 0, prompt(1));
    const { local, sequence } = prompt(1, 2, 3);
    const names = Uint32Array.of(...sequence.subarray(0, 4), ...sequence.subarray(0, 2));
    expect(store(index, 0, { local, sequence }, { from: 1, names })).toBe('invalid_block');
    expect(store(index, 0, { local, sequence }, { names })).toBe('invalid_block');
    expect(deviceOf(index, prompt(1, 2, 3))).toEqual({ 0: 1 });
    expect(index.blocksOf(0)).toBe(1);
  });

  it('takes a removal parent first as no error, and brings nothing back by itself', () => {
    const index = new BlockIndex({ ranks: tableOf(1) });
    store(index, 0, prompt(1, 2, 3));
    expect(remove(index, 0, prompt(1, 2, 3), [1, 2])).toBe('ok');
    expect(deviceOf(index, prompt(1, 2, 3))).toEqual({ 0: 1 });
    expect(store(index, 0, prompt(1, 2), { from: 1 })).toBe('ok');
    expect(deviceOf(index, prompt(1, 2, 3))).toEqual({ 0: 2 });
    expect(store(index, 0, prompt(1, 2, 3), { from: 1 })).toBe('ok');
    expect(deviceOf(index, prompt(1, 2, 3))).toEqual({ 0: 3 });
  });

  it('processes a removal to its end and reports the first failure', () => {
    const index = new BlockIndex({ ranks: tableOf(1) });
    store(index, 0, prompt(1, 2, 3));
    expect(index.removed(0, 'device', Uint32Array.of(5, 5, ...prompt(1, 2, 3).sequence.subarray(4)))).toBe(
      'block_not_found',
    );
    expect(deviceOf(index, prompt(1, 2, 3))).toEqual({ 0: 2 });
  });

  it('keeps one rank when another is cleared, whose old parents are unknown then', () => {
    const index = new BlockIndex({ ranks: tableOf(2) });
    store(index, 0, prompt(1, 2));
    store(index, 1, prompt(1, 2));
    index.cleared(0);
    expect(deviceOf(index, prompt(1, 2))).toEqual({ 1: 2 });
    expect(store(index, 0, prompt(1, 2, 3), { from: 2 })).toBe('parent_block_not_found');
    expect(index.blocksOf(0)).toBe(0);
  });

  it('accepts empty events, and refuses hashes that do not pair up', () => {
    const index = new BlockIndex({ ranks: tableOf(1) });
    const none = new Uint32Array(0);
    expect(index.stored(0, 'device', [1, 1], none, none)).toBe('ok');
    expect(index.removed(0, 'device', none)).toBe('ok');
    expect(index.stored(0, 'device', undefined, Uint32Array.of(1, 2), none)).toBe('invalid_block');
    expect(index.stored(0, 'device', undefined, Uint32Array.of(1), Uint32Array.of(1))).toBe('invalid_block');
  });

  it('stores a prompt of 20,000 blocks in one event', () => {
    const index = new BlockIndex({ ranks: tableOf(1) });
    const long = longPrompt(1, 20_000);
    expect(store(index, 0, long)).toBe('ok');
    expect(deviceOf(index, long)).toEqual({ 0: 20_000 });
    expect(store(index, 0, longPrompt(1, 30_000), { from: 20_000 })).toBe('ok');
    expect(deviceOf(index, longPrompt(1, 40_000))).toEqual({ 0: 30_000 });
  });

  it('counts blocks stored where they were', () => {
    const index = new BlockIndex({ ranks: tableOf(2) });
    store(index, 0, prompt(1, 2, 3));
    store(index, 1, prompt(1, 2));
    store(index, 0, prompt(1, 2));
    expect(index.duplicateBlocks).toBe(2);
    expect(index.blockCount).toBe(3);
  });
});

describe('block index, engines that hash in their own ways', () => {
  it('lets them share prefixes, and follows the names of each', () => {
    const index = new BlockIndex({ ranks: tableOf(3) });
    const hashes = prompt(1, 2, 3, 4);
    const ownNames = (rank: number): Uint32Array => hashes.sequence.map((half) => half ^ rank);
    for (const rank of [0, 1, 2])
      expect(store(index, rank, prompt(1, 2), { names: ownNames(rank).slice(0, 4) })).toBe('ok');
    for (const rank of [0, 1, 2]) expect(store(index, rank, hashes, { from: 2, names: ownNames(rank) })).toBe('ok');
    expect(deviceOf(index, hashes)).toEqual({ 0: 4, 1: 4, 2: 4 });
    expect(index.blockCount).toBe(4);
    expect(index.removed(1, 'device', ownNames(2).slice(6))).toBe('block_not_found');
    expect(index.removed(1, 'device', ownNames(1).slice(6))).toBe('ok');
    expect(deviceOf(index, hashes)).toEqual({ 0: 4, 1: 3, 2: 4 });
  });

  it('believes the engine when a name comes to mean another block', () => {
    const index = new BlockIndex({ ranks: tableOf(1) });
    store(index, 0, prompt(1, 2), { names: Uint32Array.of(1, 0, 2, 0) });
    store(index, 0, prompt(5), { names: Uint32Array.of(1, 0) });
    expect(deviceOf(index, prompt(1, 2))).toEqual({});
    expect(deviceOf(index, prompt(5))).toEqual({ 0: 1 });
    expect(index.blockCount).toBe(1);
  });
});

describe('block index, tiers', () => {
  it('goes on in host memory and on disk where the faster tier ends', () => {
    const index = new BlockIndex({ ranks: tableOf(2) });
    const hashes = prompt(1, 2, 3, 4, 5, 6, 7);
    store(index, 0, prompt(1, 2, 3));
    store(index, 0, prompt(1, 2, 3, 4, 5), { from: 1, tier: 'host_pinned' });
    store(index, 0, prompt(1, 2, 3, 4, 5, 6), { from: 5, tier: 'disk' });
    store(index, 0, hashes, { from: 6, tier: 'external' });
    expect(overlapsOf(index, hashes)).toEqual({ 0: [3, 2, 2] });
    expect(overlapsOf(index, prompt(1, 2, 3, 4))).toEqual({ 0: [3, 1, 0] });
    remove(index, 0, hashes, [2, 1]);
    expect(overlapsOf(index, hashes)).toEqual({ 0: [1, 4, 2] });
  });

  it('keeps what still hangs on a slower copy of a removed block, and forgets what hangs on nothing', () => {
    const index = new BlockIndex({ ranks: tableOf(1) });
    const hashes = prompt(1, 2, 3);
    store(index, 0, hashes);
    store(index, 0, hashes, { tier: 'host_pinned' });
    remove(index, 0, hashes, [0]);
    expect(overlapsOf(index, hashes)).toEqual({ 0: [0, 3, 0] });
    remove(index, 0, hashes, [0], 'host_pinned');
    expect(overlapsOf(index, hashes)).toEqual({});
    expect(index.blockCount).toBe(0);
  });

  it('wants the parent in a tier that is as fast', () => {
    const index = new BlockIndex({ ranks: tableOf(1) });
    store(index, 0, prompt(1), { tier: 'disk' });
    expect(store(index, 0, prompt(1, 2), { from: 1 })).toBe('parent_block_not_found');
    expect(store(index, 0, prompt(1, 2), { from: 1, tier: 'disk' })).toBe('ok');
  });
});

describe('block index, dumps', () => {
  it('tells a chain in one event, and branches with their parents', () => {
    const index = new BlockIndex({ ranks: tableOf(2) });
    store(index, 0, prompt(1, 2, 3, 4));
    store(index, 1, prompt(1, 2, 9));
    expect(dumpOf(index, 0)).toEqual([
      {
        tier: 'device',
        parent: undefined,
        blockHashes: prompt(1, 2, 3, 4).sequence,
        tokensHashes: prompt(1, 2, 3, 4).local,
      },
    ]);
    store(index, 0, prompt(1, 2, 9));
    const runs = dumpOf(index, 0);
    expect(runs.map(({ blockHashes }) => blockHashes.length / 2).sort()).toEqual([1, 2, 2]);
    expect(runs[1]?.parent).toEqual([...prompt(1, 2).sequence.subarray(2)]);
    expect(dumpOf(index, 5)).toEqual([]);
  });

  it('come in slices, however wide or long what is held is', () => {
    const index = new BlockIndex({ ranks: tableOf(2) });
    store(index, 0, prompt(1));
    for (let at = 0; at < 130_000; at++) store(index, 0, prompt(1, at + 10), { from: 1 });
    store(index, 0, longPrompt(9, 20_000));
    for (let at = 0; at < 5000; at++) store(index, 1, prompt(1, at + 1_000_000)); // also below block 1
    const slices = [...index.dump(0)].map(({ runs }) => runs);
    const blocksOf = (runs: readonly StoredRun[]): number =>
      runs.reduce((sum, { blockHashes }) => sum + blockHashes.length / 2, 0);
    expect(slices.length).toBeGreaterThan(130);
    expect(Math.max(...slices.map(blocksOf))).toBeLessThanOrEqual(4096);
    expect(blocksOf(slices.flat())).toBe(150_001);
    const copy = new BlockIndex({ ranks: tableOf(1) });
    for (const { tier, parent, blockHashes, tokensHashes } of slices.flat()) {
      expect(copy.stored(0, tier, parent, blockHashes, tokensHashes)).toBe('ok');
    }
    expect(copy.blocksOf(0)).toBe(150_001);
  }, 120_000);
});

describe('block index, size', () => {
  it('finds every prompt among 200,000 blocks, and forgets them all again', () => {
    const index = new BlockIndex({ ranks: tableOf(8) });
    const prompts = Array.from({ length: 800 }, (_, at) => longPrompt(at, 250));
    for (const [at, each] of prompts.entries()) expect(store(index, at % 8, each)).toBe('ok');
    expect(index.blockCount).toBe(200_000);
    for (const [at, each] of prompts.entries()) expect(deviceOf(index, each)).toEqual({ [at % 8]: 250 });
    const leafFirst = Array.from({ length: 250 }, (_, at) => 249 - at);
    for (const [at, each] of prompts.entries()) expect(remove(index, at % 8, each, leafFirst)).toBe('ok');
    expect(index.blockCount).toBe(0);
    for (const each of prompts) expect(deviceOf(index, each)).toEqual({});
  });

  it('holds a prompt that 10,000 workers share, whatever they hold beside it', () => {
    const index = new BlockIndex({ ranks: tableOf(10_000) });
    const common = longPrompt(1, 20);
    for (let rank = 0; rank < 10_000; rank++) {
      store(index, rank, common);
      store(index, rank, prompt(rank + 10));
    }
    expect(index.blockCount).toBe(10_020);
    const found = deviceOf(index, common);
    expect(Object.keys(found)).toHaveLength(10_000);
    expect(new Set(Object.values(found))).toEqual(new Set([20]));
    index.removeRank(77);
    expect(deviceOf(index, common)[77]).toBeUndefined();
    for (let rank = 0; rank < 10_000; rank += 2) remove(index, rank, common, [19]);
    expect(deviceOf(index, common)[78]).toBe(19);
    expect(deviceOf(index, common)[79]).toBe(20);
  });
});

describe('block index, ranks that leave', () => {
  it('forgets them at once, and gives their blocks back in slices', () => {
    const ranks = tableOf(3);
    const index = new BlockIndex({ ranks });
    for (let at = 0; at < 100; at++) {
      store(index, 0, longPrompt(at, 100));
      store(index, 1, longPrompt(at, 50));
    }
    ranks.drop(0);
    index.removeRank(0);
    expect(deviceOf(index, longPrompt(3, 100))).toEqual({ 1: 50 });
    expect(index.blocksOf(0)).toBe(0);
    expect(ranks.intern('new', 0)).toBe(0);
    expect(store(index, 0, longPrompt(3, 60))).toBe('ok');
    let slices = 0;
    while (index.housekeep(1000)) slices++;
    expect(slices).toBeGreaterThan(5);
    expect(index.blockCount).toBe(100 * 50 + 10);
    expect(deviceOf(index, longPrompt(3, 100))).toEqual({ 0: 60, 1: 50 });
  });

  it('has events do their share, so that nothing piles up without housekeeping', () => {
    const index = new BlockIndex({ ranks: tableOf(1) });
    for (let round = 0; round < 300; round++) {
      store(index, 0, longPrompt(round, 100));
      index.cleared(0);
    }
    expect(index.blockCount).toBeLessThan(1000);
  });

  it('goes on when ranks come and go more often than a sweep takes', () => {
    const index = new BlockIndex({ ranks: tableOf(1) });
    for (let round = 0; round < 2000; round++) {
      expect(store(index, 0, prompt(round, 1))).toBe('ok');
      expect(deviceOf(index, prompt(round, 1))).toEqual({ 0: 2 });
      index.cleared(0);
    }
    while (index.housekeep());
    expect(index.blockCount).toBe(0);
  });
});

describe('block index, full', () => {
  it('gives up the blocks stored longest ago, ends of prompts first', () => {
    const evicted: number[] = [];
    const index = new BlockIndex({ ranks: tableOf(2), blocksMax: 300, onEvicted: (blocks) => evicted.push(blocks) });
    for (let at = 0; at < 10; at++) store(index, at % 2, longPrompt(at, 50));
    expect(index.blockCount).toBeLessThanOrEqual(300);
    expect(deviceOf(index, longPrompt(9, 50))).toEqual({ 1: 50 });
    expect(deviceOf(index, longPrompt(8, 50))).toEqual({ 0: 50 });
    expect(Object.values(deviceOf(index, longPrompt(0, 50)))[0] ?? 0).toBeLessThan(50);
    expect(evicted.reduce((sum, blocks) => sum + blocks)).toBe(500 - index.blockCount);
    expect(index.blocksOf(0) + index.blocksOf(1)).toBe(index.blockCount);
  });

  it('spares what was stored again', () => {
    const index = new BlockIndex({ ranks: tableOf(2), blocksMax: 1000 });
    for (let at = 0; at < 20; at++) store(index, 0, longPrompt(at, 50));
    store(index, 1, longPrompt(0, 50));
    for (let at = 20; at < 24; at++) store(index, 0, longPrompt(at, 50));
    expect(deviceOf(index, longPrompt(0, 50))).toEqual({ 0: 50, 1: 50 });
  });

  it('never gives up the parent of what it stores', () => {
    const index = new BlockIndex({ ranks: tableOf(1), blocksMax: 100 });
    for (let length = 1; length <= 100; length++) {
      expect(store(index, 0, longPrompt(1, length), { from: length - 1 })).toBe('ok');
    }
    expect(store(index, 0, longPrompt(1, 101), { from: 100 })).toBe('capacity_exhausted');
    expect(deviceOf(index, longPrompt(1, 101))).toEqual({ 0: 100 });
    expect(store(index, 0, longPrompt(2, 101))).toBe('capacity_exhausted');
    expect(store(index, 0, longPrompt(2, 100))).toBe('ok');
    expect(deviceOf(index, longPrompt(2, 100))).toEqual({ 0: 100 });
  });

  it('keeps names in step with blocks that gave way', () => {
    const index = new BlockIndex({ ranks: tableOf(2), blocksMax: 100 });
    for (let at = 0; at < 50; at++) {
      const each = longPrompt(at, 20);
      for (const rank of [0, 1]) store(index, rank, each, { names: each.sequence.map((half) => half ^ (rank + 1)) });
      expect(index.blocksOf(0)).toBe(index.blockCount);
    }
    index.cleared(0);
    index.cleared(1);
    while (index.housekeep());
    expect(index.blockCount).toBe(0);
  });
});
