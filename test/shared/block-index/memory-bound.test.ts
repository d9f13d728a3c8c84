import { describe, expect, it } from 'vitest';
import { ApproximateIndex, BlockIndex, IndexMemory } from '../../../shared/block-index/index.ts';
import { loadBlockIndex } from '../../support/router/load-block-index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { deviceOf, longPrompt, prompt, remove, store, tableOf } from './prompts.ts';

const MIB = 2 ** 20;
const BYTES_MAX = 16 * MIB;

type Names = (hashes: ReturnType<typeof prompt>, rank: number) => Uint32Array;

/** What makes an index large beside its blocks. */
const ENGINES: readonly (readonly [what: string, holders: number, names: Names])[] = [
  ['hash as we do', 1, ({ sequence }) => sequence],
  ['hash in one other way', 1, ({ sequence }) => sequence.map((half) => ~half)],
  ['each hash in their own way', 3, ({ sequence }, rank) => sequence.map((half) => half ^ (rank + 1))],
  ['hold the same, but not all of it', 8, ({ sequence }) => sequence],
];

describe('the memory of an index', () => {
  it.each(ENGINES)('stays within its bound while blocks come and go, with engines that %s', (_, holders, names) => {
    let evicted = 0;
    const index = new BlockIndex({
      ranks: tableOf(holders),
      bytesMax: () => BYTES_MAX,
      onEvicted: (blocks) => {
        evicted += blocks;
      },
    });
    let most = 0;
    for (let at = 0; at < 3600; at++) {
      const each = longPrompt(at, 100 + (at % 7));
      for (let rank = 0; rank < holders; rank++) {
        const blocks = holders < 8 ? each.local.length : 2 * (90 + ((3 * rank + at) % 11));
        const [local, sequence] = [each.local.subarray(0, blocks), each.sequence.subarray(0, blocks)];
        const held = { local, sequence };
        expect(store(index, rank, held, { names: names(held, rank) })).toBe('ok');
      }
      most = Math.max(most, index.bytes);
      expect(deviceOf(index, each)[0]).toBeGreaterThan(89); // what came last is always there
    }
    expect(most).toBeLessThanOrEqual(BYTES_MAX);
    expect(most).toBeGreaterThan(0.9 * BYTES_MAX);
    expect(evicted).toBeGreaterThan(0);
    expect(index.blockCount).toBeGreaterThan(30_000);
  });

  it('is brought back within bounds, event by event, when a larger snapshot was loaded', () => {
    const large = new BlockIndex({ ranks: tableOf(1) });
    for (let at = 0; at < 5000; at++) store(large, 0, longPrompt(at, 100));
    const snapshot = Buffer.concat([...large.snapshot()]);
    const index = loadBlockIndex(snapshot, { ranks: tableOf(1), bytesMax: () => BYTES_MAX });
    const bytes = index.bytes;
    expect(bytes).toBeGreaterThan(BYTES_MAX);
    for (let at = 0; at < 1000; at++) {
      const before = index.blockCount;
      store(index, 0, longPrompt(10_000 + at, 10));
      expect(before - index.blockCount).toBeLessThan(1100);
    }
    expect(index.bytes).toBe(bytes);
    expect(index.blockCount).toBeLessThan(BYTES_MAX / 40);
    expect(index.blockCount).toBeGreaterThan(BYTES_MAX / 250);
  });

  it.each(['ttl', 'lru'] as const)('is bounded for what decisions tell, with the policy %s', (policy) => {
    const clock = new VirtualClock();
    let evicted = 0;
    const onEvicted = (blocks: number): void => {
      evicted += blocks;
    };
    const bounds = { bytesMax: () => BYTES_MAX, onEvicted };
    const index = new ApproximateIndex({ ranks: tableOf(2), clock, policy, ttlMs: 1e9, ...bounds });
    for (const rank of [0, 1]) index.setCapacity(rank, 1e9);
    for (let at = 0; at < 3600; at++) {
      index.decided(`${at}`, at % 2, longPrompt(at, 100));
      index.freed(`${at}`);
      expect(index.bytes).toBeLessThanOrEqual(BYTES_MAX);
      expect(deviceOf(index, longPrompt(at, 100))).toEqual({ [at % 2]: 100 });
    }
    expect(evicted).toBe(360_000 - index.blockCount);
    expect(index.blockCount).toBeGreaterThan(30_000);
  });

  it('is shared: each index may take what the others leave, and half of a fair share in any case', () => {
    const [first, second] = [{ bytes: 10 * MIB }, { bytes: 2 * MIB }];
    const indexes = new Set([first, second]);
    const memory = new IndexMemory(BYTES_MAX, () => indexes);
    expect([memory.leftFor(first), memory.leftFor(second)]).toEqual([14 * MIB, 6 * MIB]);
    first.bytes = 15 * MIB;
    second.bytes = 3 * MIB;
    expect(memory.leftFor(second)).toBe(4 * MIB); // half of a half
    expect(memory.leftFor(first)).toBe(13 * MIB); // the largest gives way
    const third = { bytes: 5 * MIB };
    indexes.add(third);
    expect([first, second, third].map((each) => memory.leftFor(each))).toEqual([8 * MIB, 3 * MIB, 5 * MIB]);
    indexes.delete(first);
    expect(memory.leftFor(second)).toBe(11 * MIB);
  });

  it('holds for many indexes that come one after another: the largest gives memory back', () => {
    const bytesMax = 96 * MIB;
    const indexes: BlockIndex[] = [];
    const memory = new IndexMemory(bytesMax, () => indexes);
    const taken = (): number => indexes.reduce((sum, { bytes }) => sum + bytes, 0);
    const evicted = new Array<number>(24).fill(0);
    for (let model = 0; model < 24; model++) {
      const onEvicted = (blocks: number): void => {
        evicted[model]! += blocks;
      };
      const index = memory.bound((own) => new BlockIndex({ ranks: tableOf(2), bytesMax: own, onEvicted }));
      indexes.push(index);
      for (let at = 0; at < 1000; at++) {
        store(index, at % 2, longPrompt(1000 * model + at, 100));
        if (at % 10 > 0) continue;
        for (const each of indexes) each.housekeep();
      }
      for (const each of indexes) while (each.housekeep());
      expect(taken()).toBeLessThanOrEqual(bytesMax);
      expect(deviceOf(index, longPrompt(1000 * model + 999, 100))).toEqual({ 1: 100 });
    }
    expect(indexes.every(({ blockCount }) => blockCount > 10_000)).toBe(true); // nobody starves
    expect(evicted[0]).toBeGreaterThan(10_000);
    expect(evicted).toEqual(indexes.map(({ blockCount }) => 100_000 - blockCount));
    for (const each of indexes) {
      expect(each.blocksOf(0) + each.blocksOf(1)).toBe(each.blockCount);
      const index = loadBlockIndex(Buffer.concat([...each.snapshot()]), { ranks: tableOf(2) });
      expect(index.blockCount).toBe(each.blockCount);
    }
  });

  it('is given back from the end of records that have much below them and are used meanwhile', () => {
    let bytesMax = Number.POSITIVE_INFINITY;
    const index = new BlockIndex({ ranks: tableOf(3), bytesMax: () => bytesMax });
    const names = (hashes: ReturnType<typeof prompt>, rank: number): Uint32Array =>
      rank === 2 ? hashes.sequence.map((half) => ~half) : hashes.sequence;
    const chat = (at: number): ReturnType<typeof prompt> => prompt(1, 2, 3 + (at % 50), 1000 + at, 5, 6, 7);
    for (let at = 0; at < 20_000; at++) store(index, at % 3, chat(at), { names: names(chat(at), at % 3) });
    for (let at = 0; at < 10_000; at++) remove(index, at % 3, chat(at), [6, 5, 4]); // free records everywhere
    const before = index.bytes;
    bytesMax = before / 3;
    let random = 7;
    for (let at = 20_000; index.housekeep(37) || at < 21_000; at++) {
      random = (Math.imul(random, 1103515245) + 12_345) & 0x7fffffff;
      const each = chat(random % 40_000);
      expect(store(index, at % 2, each)).toBe('ok');
      expect(deviceOf(index, each)[at % 2]).toBe(7);
      if (at % 5 === 0) remove(index, at % 2, each, [3]);
    }
    expect(index.bytes).toBeLessThan(before / 2);
    index.cleared(0);
    index.cleared(1);
    index.cleared(2);
    while (index.housekeep());
    expect(index.blockCount).toBe(0);
  });
});
