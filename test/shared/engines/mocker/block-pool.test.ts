import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockPool } from '../../../../shared/engines/mocker/block-pool.ts';
import type { BlockNames } from '../../../../shared/engines/mocker/sequence.ts';

/** Names a single block `[low, high]`. */
function named(low: number, high: number): BlockNames {
  const pair = Uint32Array.of(low, high);
  return { hashes: pair, tokensHashes: pair, ensure() {} };
}

/** Few low halves, so that blocks collide in the table and differ in the high half alone. */
function nameOf(content: number): BlockNames {
  return named(content % 3, content);
}

/** The pool's rules with lists and objects. */
class NaivePool {
  readonly held: { slot: number; content: number | undefined }[] = [];
  cached: number[] = []; // released longest ago first
  readonly removed: number[] = [];
  readonly stored: number[] = [];
  readonly #capacity: number;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get active(): number {
    const contents = new Set(this.held.filter((h) => h.content !== undefined).map((h) => h.content));
    return contents.size + this.held.filter((h) => h.content === undefined).length;
  }

  take(slot: number): void {
    if (this.active + this.cached.length === this.#capacity) this.removed.push(this.cached.shift() ?? -1);
    this.held.push({ slot, content: undefined });
  }

  seal(at: number, slot: number, content: number): void {
    if (!this.knows(content)) this.stored.push(content);
    this.cached = this.cached.filter((other) => other !== content);
    this.held[at] = { slot, content };
  }

  pin(slot: number, content: number): void {
    this.cached = this.cached.filter((other) => other !== content);
    this.held.push({ slot, content });
  }

  unpin(at: number): void {
    const [gone] = this.held.splice(at, 1);
    if (gone?.content === undefined || this.held.some((h) => h.content === gone.content)) return;
    this.cached.push(gone.content);
  }

  knows(content: number): boolean {
    return this.cached.includes(content) || this.held.some((h) => h.content === content);
  }
}

const steps = fc.array(
  fc.record({ kind: fc.constantFrom('take', 'seal', 'pin', 'unpin'), pick: fc.nat(1000), content: fc.nat(12) }),
  { maxLength: 200 },
);

describe('block pool', () => {
  it('behaves like a list of held and a list of cached blocks', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 9 }), steps, (capacity, commands) => {
        const naive = new NaivePool(capacity);
        const stored: number[] = [];
        const removed: number[] = [];
        const pool = new BlockPool(capacity, {
          stored: (names) => stored.push(names.hashes[1] ?? -1),
          removed: (_, high) => removed.push(high),
        });
        for (const { kind, pick, content } of commands) run(pool, naive, kind, pick, content);
        expect({ stored, removed }).toEqual({ stored: naive.stored, removed: naive.removed });
      }),
      { numRuns: 300 },
    );
  });

  it('refuses to give out more than it has and to release twice', () => {
    const pool = new BlockPool(1);
    const slot = pool.take();
    expect(() => pool.take()).toThrow('no block');
    pool.unpin(slot);
    expect(() => pool.unpin(slot)).toThrow('released twice');
    expect(() => new BlockPool(0)).toThrow('at least one block');
  });
});

function run(pool: BlockPool, naive: NaivePool, kind: string, pick: number, content: number): void {
  const name = nameOf(content);
  const at = naive.held.length === 0 ? -1 : pick % naive.held.length;
  if (kind === 'take' && pool.available > 0) naive.take(pool.take());
  if (kind === 'pin') {
    const slot = pool.find(content % 3, content);
    expect(slot >= 0).toBe(naive.knows(content));
    if (slot >= 0) {
      expect(pool.isActive(slot)).toBe(naive.held.some((held) => held.content === content));
      pool.pin(slot);
      naive.pin(slot, content);
    }
  }
  const held = naive.held[at];
  if (kind === 'seal' && held !== undefined && held.content === undefined) {
    naive.seal(at, pool.seal(held.slot, name, 0), content);
  }
  if (kind === 'unpin' && held !== undefined) {
    pool.unpin(held.slot);
    naive.unpin(at);
  }
  expect(pool.active).toBe(naive.active);
  expect(pool.cached).toBe(naive.cached.length);
  expect(pool.available).toBe(pool.capacity - naive.active);
}
