import { describe, expect, it } from 'vitest';
import { BlockIndex } from '../../../shared/block-index/index.ts';
import { RankTable } from '../../../shared/block-index/rank-table.ts';
import { loadBlockIndex } from '../../support/router/load-block-index.ts';
import { deviceOf, dumpOf, longPrompt, prompt, remove, store, tableOf } from './prompts.ts';

describe('snapshot of a block index', () => {
  it('is of one moment, though events go on while it is written', () => {
    const index = new BlockIndex({ ranks: tableOf(4) });
    for (let at = 0; at < 400; at++) {
      const each = longPrompt(at, 100);
      store(index, at % 4, each, at % 2 === 0 ? {} : { names: each.sequence.map((half) => ~half) });
      store(index, (at + 1) % 4, longPrompt(at, 40));
    }
    const before = [0, 1, 2, 3].map((rank) => dumpOf(index, rank));
    const chunks: Uint8Array[] = [];
    let at = 0;
    for (const chunk of index.snapshot()) {
      chunks.push(chunk);
      for (let event = 0; event < 5; event++, at++) {
        store(index, at % 4, longPrompt(1000 + at, 30));
        remove(index, at % 4, longPrompt(at, 100), [20]);
        if (at === 10) index.cleared(3);
        index.housekeep(500);
      }
    }
    const loaded = loadBlockIndex(Buffer.concat(chunks), { ranks: tableOf(4) });
    expect([0, 1, 2, 3].map((rank) => dumpOf(loaded, rank))).toEqual(before);
    expect(loaded.blockCount).toBe(40_000);
    // The loaded index goes on from there.
    store(loaded, 0, longPrompt(0, 120), { from: 100 });
    expect(deviceOf(loaded, longPrompt(0, 120))).toEqual({ 0: 120, 1: 40 });
    for (const rank of [0, 1, 2, 3]) loaded.removeRank(rank);
    while (loaded.housekeep());
    expect(loaded.blockCount).toBe(0);
  });

  it('numbers its ranks anew if the table has other numbers', () => {
    const index = new BlockIndex({ ranks: tableOf(3) });
    store(index, 2, prompt(1, 2));
    const ranks = new RankTable();
    ranks.intern('other', 0);
    const loaded = loadBlockIndex(written(index), { ranks });
    expect(deviceOf(loaded, prompt(1, 2))).toEqual({ [ranks.find('2', 0) ?? -1]: 2 });
    expect(ranks.find('0', 0)).toBeDefined();
  });

  it('leaves out ranks that left, once and for all', () => {
    const ranks = tableOf(2);
    const index = new BlockIndex({ ranks });
    store(index, 0, prompt(1, 2));
    store(index, 1, prompt(1));
    ranks.drop(0);
    index.removeRank(0);
    const loaded = loadBlockIndex(written(index), { ranks: tableOf(2) });
    expect(deviceOf(loaded, prompt(1, 2))).toEqual({ 1: 1 });
    while (loaded.housekeep());
    expect(loaded.blockCount).toBe(1);
  });

  it('loads an empty index, and from any place in memory', () => {
    const bytes = written(new BlockIndex({ ranks: tableOf(0) }));
    const shifted = new Uint8Array(bytes.length + 1).subarray(1);
    shifted.set(bytes);
    expect(loadBlockIndex(shifted, { ranks: tableOf(0) }).blockCount).toBe(0);
  });

  it('says what is wrong with one that cannot be loaded', () => {
    const index = new BlockIndex({ ranks: tableOf(1) });
    store(index, 0, longPrompt(1, 500));
    const bytes = written(index);
    const load = (snapshot: Uint8Array) => () => loadBlockIndex(snapshot, { ranks: tableOf(1) });
    for (const length of [0, 5, 100, 4000, bytes.length - 16, bytes.length - 1]) {
      expect(load(bytes.slice(0, length)), `${length} bytes`).toThrow(/cut off after \d+ bytes/);
    }
    const overlong = bytes.slice();
    overlong[59] = 0x7f; // length of the second section
    expect(load(overlong)).toThrow('the snapshot is damaged: its parts do not fit together');
    const newer = bytes.slice();
    newer[20] = 3;
    expect(load(newer)).toThrow('the snapshot has version 3; this program reads version 2');
    expect(load(new Uint8Array(1000))).toThrow('this is not a snapshot of a block index');
  });

  it('ends when a later one begins, which is whole', () => {
    const index = new BlockIndex({ ranks: tableOf(1) });
    store(index, 0, longPrompt(1, 500));
    const first = index.snapshot();
    first.next();
    const second = index.snapshot();
    const begin = second.next().value as Uint8Array;
    expect(() => [...first]).toThrow('a later snapshot has begun');
    store(index, 0, longPrompt(2, 500));
    const loaded = loadBlockIndex(Buffer.concat([begin, ...second]), { ranks: tableOf(1) });
    expect(loaded.blocksOf(0)).toBe(500);
  });

  it('keeps nothing of the past before its first chunk, nor when it is left', () => {
    const index = new BlockIndex({
      ranks: tableOf(2),
      blocksMax: 10_000,
      bytesMax: () => Number.POSITIVE_INFINITY,
      onEvicted: () => {},
    });
    store(index, 0, longPrompt(1, 500));
    /** A page that a snapshot has yet to write is copied when it changes. */
    const copies = (): boolean => {
      const before = index.residency.words[0]?.pages[0];
      remove(index, 0, longPrompt(1, 500), [499]);
      store(index, 0, longPrompt(1, 500));
      return index.residency.words[0]?.pages[0] !== before;
    };
    const unread = index.snapshot();
    expect(copies()).toBe(false);
    unread.next();
    expect(copies()).toBe(true);
    unread.return();
    const left = index.snapshot();
    left.next();
    left.return();
    expect(copies()).toBe(false);
  });

  it('can be given up half-way', () => {
    const index = new BlockIndex({ ranks: tableOf(1) });
    store(index, 0, longPrompt(1, 500));
    for (const chunk of index.snapshot()) {
      expect(chunk.length).toBeGreaterThan(0);
      break;
    }
    store(index, 0, longPrompt(2, 500));
    expect(loadBlockIndex(written(index), { ranks: tableOf(1) }).blocksOf(0)).toBe(1000);
  });
});

function written(index: { snapshot(): Iterable<Uint8Array> }): Uint8Array {
  return Buffer.concat([...index.snapshot()]);
}
