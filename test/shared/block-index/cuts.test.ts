import { describe, expect, it } from 'vitest';
import { BlockIndex } from '../../../shared/block-index/index.ts';
import { deviceOf, dumpOf, longPrompt, prompt, remove, store, tableOf } from './prompts.ts';

const SYSTEM = [1, 2, 3];

/** Conversations that go on from one system prompt, one block each, told by one rank. */
function wideIndex(conversations: number, ranks = 2): BlockIndex {
  const index = new BlockIndex({ ranks: tableOf(ranks) });
  for (let rank = 0; rank < ranks; rank++) store(index, rank, prompt(...SYSTEM));
  for (let at = 0; at < conversations; at++) store(index, 0, conversation(at), { from: 3 });
  return index;
}

function conversation(at: number, ...more: readonly number[]) {
  return prompt(...SYSTEM, 100 + at, ...more);
}

/** Slices until nothing is left to do. */
function slicesLeft(index: BlockIndex): number {
  let slices = 0;
  while (index.housekeep()) slices++;
  return slices;
}

describe('a block that goes from the middle', () => {
  it('removes all blocks below it at once for readers, and in slices for the event loop', () => {
    const index = wideIndex(50_000);
    expect(remove(index, 0, prompt(...SYSTEM), [1])).toBe('ok');
    expect(deviceOf(index, conversation(7))).toEqual({ 0: 1, 1: 3 });
    expect(dumpOf(index, 0)).toHaveLength(1);
    expect(store(index, 0, conversation(7, 8), { from: 4 })).toBe('parent_block_not_found');
    expect(remove(index, 0, conversation(9), [3])).toBe('block_not_found');
    expect(index.blocksOf(0)).toBeGreaterThan(45_000); // nobody has looked at them yet
    expect(slicesLeft(index)).toBeGreaterThan(20);
    expect([index.blocksOf(0), index.blocksOf(1), index.blockCount]).toEqual([1, 3, 3]);
  });

  it('costs a rank that holds nothing below it no check of the blocks of others there', () => {
    const index = wideIndex(50_000);
    expect(remove(index, 1, prompt(...SYSTEM), [2])).toBe('ok');
    expect(index.housekeep(1)).toBe(false);
    store(index, 1, longPrompt(5, 10)); // holds something else, so that it takes a look to know
    store(index, 1, prompt(...SYSTEM));
    expect(remove(index, 1, prompt(...SYSTEM), [2])).toBe('ok');
    expect(deviceOf(index, conversation(7))).toEqual({ 0: 4, 1: 2 });
    expect(slicesLeft(index)).toBeGreaterThan(20);
    expect([index.blocksOf(0), index.blocksOf(1)]).toEqual([50_003, 12]);
  });

  it('does not take along what is stored again before its turn', () => {
    const index = wideIndex(50_000);
    remove(index, 0, prompt(...SYSTEM), [2]);
    for (const at of [3, 20_000, 49_999]) {
      expect(store(index, 0, conversation(at, 1, 2))).toBe('ok');
      expect(deviceOf(index, conversation(at, 1, 2))).toEqual({ 0: 6, 1: 3 });
    }
    expect(deviceOf(index, conversation(5))).toEqual({ 0: 3, 1: 3 });
    slicesLeft(index);
    expect(index.blocksOf(0)).toBe(3 + 3 * 3);
    expect(deviceOf(index, conversation(20_000, 1, 2))).toEqual({ 0: 6, 1: 3 });
  });

  it('is done with when the rank is cleared, and its number serves another', () => {
    const table = tableOf(2);
    const index = new BlockIndex({ ranks: table });
    for (let at = 0; at < 5000; at++) store(index, 0, conversation(at));
    remove(index, 0, prompt(...SYSTEM), [0]);
    table.drop(0);
    index.removeRank(0);
    slicesLeft(index);
    expect(index.blockCount).toBe(0);
    const rank = table.intern('new', 0);
    store(index, rank, conversation(4));
    slicesLeft(index);
    expect(deviceOf(index, conversation(4))).toEqual({ [rank]: 4 });
  });

  it('loses its place neither when the next one in turn goes by itself, nor when a new one has its number', () => {
    for (let steps = 0; steps < 40; steps++) {
      const index = new BlockIndex({ ranks: tableOf(2), looksMax: 0 });
      for (let at = 0; at < 30; at++) store(index, 0, conversation(at, 5));
      remove(index, 0, prompt(...SYSTEM), [2]);
      index.housekeep(4 * steps);
      for (let at = 0; at < 30; at += 2) deviceOf(index, conversation(at, 5)); // puts right what it asks about
      for (let at = 50; at < 60; at++) store(index, 1, conversation(at));
      slicesLeft(index);
      expect([index.blocksOf(0), index.blocksOf(1), index.blockCount]).toEqual([2, 13, 13]);
    }
  });

  it('gives way to eviction with all that hangs on it', () => {
    const index = new BlockIndex({ ranks: tableOf(2), blocksMax: 5000, looksMax: 0 });
    for (let at = 0; at < 4000; at++) store(index, 0, conversation(at));
    remove(index, 0, prompt(...SYSTEM), [2]);
    for (let at = 0; at < 500; at++) store(index, 1, longPrompt(at + 10, 30));
    slicesLeft(index);
    expect(index.blockCount).toBeLessThanOrEqual(5000);
    expect(index.blocksOf(0)).toBeLessThanOrEqual(2);
    expect(index.blocksOf(0) + index.blocksOf(1)).toBe(index.blockCount);
  });
});
