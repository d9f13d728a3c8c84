import { describe, expect, it } from 'vitest';
import { BlockIndex } from '../../../shared/block-index/index.ts';
import { RankTable } from '../../../shared/block-index/rank-table.ts';
import { deviceOf, longPrompt, prompt } from './prompts.ts';

const PROMPTS = 80;

function openIndex(workerIds: readonly string[]) {
  const ranks = new RankTable();
  for (const workerId of workerIds) ranks.intern(workerId, 0);
  const index = new BlockIndex({ ranks });
  return {
    ranks,
    index,
    store(workerId: string, { local, sequence }: ReturnType<typeof prompt>) {
      index.stored(ranks.intern(workerId, 0), 'device', undefined, sequence, local);
    },
    /** Blocks of the prompt by worker. */
    held: (hashes: ReturnType<typeof prompt>) =>
      Object.fromEntries(
        Object.entries(deviceOf(index, hashes)).map(([rank, blocks]) => [ranks.workerIdOf(Number(rank)), blocks]),
      ),
  };
}

/** 40,000 blocks of the workers a and b. */
function snapshotOfTwo(): Uint8Array {
  const { index, store } = openIndex(['a', 'b']);
  for (let at = 0; at < PROMPTS; at++) store(at % 2 === 0 ? 'a' : 'b', longPrompt(at, 500));
  return Buffer.concat([...index.snapshot()]);
}

describe('an index that a snapshot takes the place of', () => {
  it('answers as before while the snapshot is read, in many slices', () => {
    const { index, store, held } = openIndex(['a', 'b']);
    store('a', prompt(1, 2));
    const reading = index.read(snapshotOfTwo());
    let slices = 0;
    let slice = reading.next();
    for (; slice.done !== true; slice = reading.next()) {
      expect(held(prompt(1, 2))).toEqual({ a: 2 });
      slices++;
    }
    expect(slices).toBeGreaterThan(8);
    index.replaceBy(slice.value);
    expect(held(prompt(1, 2))).toEqual({});
    expect(held(longPrompt(3, 500))).toEqual({ b: 500 });
    expect(index.blockCount).toBe(500 * PROMPTS);
  });

  it('belongs to the workers that are there when it is put in place', () => {
    const { index, ranks, store, held } = openIndex(['a', 'b']);
    const reading = index.read(snapshotOfTwo());
    reading.next();
    const left = ranks.find('a', 0)!;
    ranks.drop(left);
    index.removeRank(left);
    let slice = reading.next();
    while (slice.done !== true) slice = reading.next();
    store('c', prompt(1)); // takes the number of the worker that left
    expect(ranks.find('c', 0)).toBe(left);
    index.replaceBy(slice.value);
    expect(held(longPrompt(2, 500))).toEqual({});
    expect(held(longPrompt(3, 500))).toEqual({ b: 500 });
    expect([ranks.find('a', 0), ranks.find('c', 0)]).toEqual([undefined, left]);
    while (index.housekeep());
    expect(index.blockCount).toBe((500 * PROMPTS) / 2);
  });

  it('stays when the snapshot turns out to be damaged', () => {
    const { index, store, held } = openIndex(['a']);
    store('a', prompt(1, 2));
    const snapshot = snapshotOfTwo();
    snapshot[59] = 0x7f; // length of the second section
    expect(() => [...index.read(snapshot)]).toThrow('the snapshot is damaged');
    expect(held(prompt(1, 2))).toEqual({ a: 2 });
  });

  it('can be written again while it changes', () => {
    const { index, ranks, store, held } = openIndex(['a', 'b']);
    const reading = index.read(snapshotOfTwo());
    let slice = reading.next();
    while (slice.done !== true) slice = reading.next();
    index.replaceBy(slice.value);
    const chunks: Uint8Array[] = [];
    let at = 0;
    for (const chunk of index.snapshot()) {
      chunks.push(chunk);
      const { sequence } = longPrompt(at++ % PROMPTS, 500);
      for (const workerId of ['a', 'b']) index.removed(ranks.find(workerId, 0)!, 'device', sequence.slice(-20));
      store('a', longPrompt(1000 + at, 300));
    }
    expect(held(longPrompt(3, 500))).toEqual({ b: 490 });
    const again = openIndex(['a', 'b']);
    const rereading = again.index.read(Buffer.concat(chunks));
    let last = rereading.next();
    while (last.done !== true) last = rereading.next();
    again.index.replaceBy(last.value);
    expect(again.index.blockCount).toBe(500 * PROMPTS);
    expect(again.held(longPrompt(3, 500))).toEqual({ b: 500 });
  });
});
