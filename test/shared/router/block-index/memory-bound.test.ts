import { describe, expect, it } from 'vitest';
import { VirtualClock } from '../../../../shared/clock/index.ts';
import {
  createApproximateIndex,
  createBlockIndex,
  IndexMemory,
  loadBlockIndex,
} from '../../../../shared/router/block-index/index.ts';
import { deviceOf, longPrompt, type prompt, store, tableOf } from './prompts.ts';

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

/** Minutes, on a slow machine that does other things beside: millions of blocks. */
const TIME = { timeout: 120_000 };

describe('the memory of an index', TIME, () => {
  it.each(ENGINES)('stays within its bound while blocks come and go, with engines that %s', (_, holders, names) => {
    let evicted = 0;
    const index = createBlockIndex({
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
    expect(evicted).toBe(index.counters.evictedBlocks);
    expect(index.blockCount).toBeGreaterThan(30_000);
  });

  it('is brought back within bounds, event by event, when a larger snapshot was loaded', () => {
    const large = createBlockIndex({ ranks: tableOf(1) });
    for (let at = 0; at < 5000; at++) store(large, 0, longPrompt(at, 100));
    const snapshot = Buffer.concat([...large.snapshot(new Uint8Array(0))]);
    const { index } = loadBlockIndex(snapshot, { ranks: tableOf(1), bytesMax: () => BYTES_MAX });
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
    const index = createApproximateIndex({ ranks: tableOf(2), clock, policy, ttlMs: 1e9, ...bounds });
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

  it('is shared: each index may take what the others leave, and a sixteenth in any case', () => {
    const [first, second] = [{ bytes: 10 * MIB }, { bytes: 2 * MIB }];
    const indexes = new Set([first, second]);
    const memory = new IndexMemory(BYTES_MAX, () => indexes);
    expect([memory.leftFor(first), memory.leftFor(second)]).toEqual([14 * MIB, 6 * MIB]);
    first.bytes = 20 * MIB;
    expect(memory.leftFor(second)).toBe(MIB);
    indexes.delete(first);
    expect(memory.leftFor(second)).toBe(16 * MIB);
  });
});
