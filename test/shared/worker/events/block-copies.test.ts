import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KvEvent } from '../../../../shared/engines/index.ts';
import { BlockCopies, KvEventFilter } from '../../../../shared/worker/events/kv-event-publisher.ts';

describe('counting copies of blocks', () => {
  it('tells first stores and last removals like a map of counts', () => {
    // Few low halves make long runs in the table; the number of blocks makes it grow.
    const step = fc.record({ isAdd: fc.boolean(), low: fc.nat(3), high: fc.nat(900) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 3000 }), (steps) => {
        const copies = new BlockCopies();
        const naive = new Map<string, number>();
        for (const { isAdd, low, high } of steps) {
          const name = `${low}:${high}`;
          const count = naive.get(name) ?? 0;
          if (isAdd) {
            expect(copies.add(low, high)).toBe(count === 0);
            naive.set(name, count + 1);
          } else {
            expect(copies.remove(low, high)).toBe(count <= 1);
            if (count > 1) naive.set(name, count - 1);
            else naive.delete(name);
          }
        }
      }),
      { numRuns: 60 },
    );
  });
});

function stored(blocks: readonly number[], parent?: number, dpRank = 0): KvEvent {
  const pairs = Uint32Array.from(blocks.flatMap((block) => [block, block + 1000]));
  const parentHash = parent === undefined ? undefined : ([parent, parent + 1000] as const);
  return { kind: 'stored', dpRank, parentHash, blockHashes: pairs, tokensHashes: pairs.map((word) => word + 5) };
}

function removed(blocks: readonly number[], dpRank = 0): KvEvent {
  const blockHashes = Uint32Array.from(blocks.flatMap((block) => [block, block + 1000]));
  return { kind: 'removed', dpRank, blockHashes };
}

describe('events of an engine that stores copies', () => {
  it('pass through untouched without copies', () => {
    const filter = new KvEventFilter();
    const events = [stored([1, 2, 3]), removed([3]), stored([4], 2)];
    expect(filter.apply(events)).toEqual(events);
  });

  it('lose second stores, and a run is cut there with the right parents', () => {
    const filter = new KvEventFilter();
    filter.apply([stored([2, 4])]);
    expect(filter.apply([stored([1, 2, 3, 4, 5, 6], 9)])).toEqual([stored([1], 9), stored([3], 2), stored([5, 6], 4)]);
    expect(filter.apply([stored([1, 2])])).toEqual([]);
    expect(filter.apply([stored([2, 7])])).toEqual([stored([7], 2)]);
  });

  it('lose removals while a copy is left, and keep those of blocks never seen', () => {
    const filter = new KvEventFilter();
    filter.apply([stored([1, 2]), stored([1])]);
    expect(filter.apply([removed([1, 2])])).toEqual([removed([2])]);
    expect(filter.apply([removed([1])])).toEqual([removed([1])]);
    expect(filter.apply([removed([77])])).toEqual([removed([77])]);
  });

  it('are counted per rank, and all ranks start over when the cache is cleared', () => {
    const filter = new KvEventFilter();
    filter.apply([stored([1], undefined, 0), stored([1], undefined, 0), stored([2], undefined, 1)]);
    expect(filter.apply([stored([1], undefined, 1)])).toHaveLength(1);
    const cleared: KvEvent = { kind: 'cleared', dpRank: 0 };
    expect(filter.apply([cleared, stored([1], undefined, 0), removed([2], 1)])).toHaveLength(3);
  });

  it('fold to the same set of blocks as the engine holds', () => {
    const block = fc.nat(9);
    const event = fc.record({ isStore: fc.boolean(), blocks: fc.uniqueArray(block, { minLength: 1, maxLength: 5 }) });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), (events) => {
        const filter = new KvEventFilter();
        const copies = new Map<number, number>();
        const held = new Set<number>();
        for (const { isStore, blocks } of events) {
          // An engine removes only what it holds.
          const mine = isStore ? blocks : blocks.filter((one) => (copies.get(one) ?? 0) > 0);
          for (const one of mine) copies.set(one, (copies.get(one) ?? 0) + (isStore ? 1 : -1));
          for (const kept of filter.apply([isStore ? stored(mine) : removed(mine)])) {
            if (kept.kind === 'cleared') continue;
            for (let at = 0; at < kept.blockHashes.length; at += 2) {
              const name = kept.blockHashes[at] ?? -1;
              expect(held.has(name)).toBe(kept.kind === 'removed');
              if (kept.kind === 'stored') held.add(name);
              else held.delete(name);
            }
          }
          expect([...held].toSorted()).toEqual(
            [...copies]
              .filter(([, n]) => n > 0)
              .map(([name]) => name)
              .toSorted(),
          );
        }
      }),
    );
  });
});
