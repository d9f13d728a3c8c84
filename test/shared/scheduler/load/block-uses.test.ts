import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockUses } from '../../../../shared/scheduler/load/block-uses.ts';
import { hashesOf } from './prompt-hashes.ts';

const RANKS = 3;

/** One entry for each block and rank: its requests, and what lightens it. */
class NaiveUses {
  readonly uses = new Map<string, { requests: number; discount: number }>();

  acquire(rank: number, names: readonly string[]): number {
    let added = 0;
    for (const name of names) {
      const use = this.uses.get(`${rank} ${name}`);
      if (use !== undefined) use.requests++;
      else {
        this.uses.set(`${rank} ${name}`, { requests: 1, discount: 0 });
        added++;
      }
    }
    return added;
  }

  release(rank: number, names: readonly string[]): { gone: number; discount: number } {
    const total = { gone: 0, discount: 0 };
    for (const name of names) {
      const use = this.uses.get(`${rank} ${name}`)!;
      if (--use.requests > 0) continue;
      this.uses.delete(`${rank} ${name}`);
      total.gone++;
      total.discount += use.discount;
    }
    return total;
  }

  lightenTail(rank: number, names: readonly string[], discount: number): number {
    let change = 0;
    for (const name of [...names].reverse()) {
      const use = this.uses.get(`${rank} ${name}`)!;
      if (use.requests !== 1) break;
      change += discount - use.discount;
      use.discount = discount;
    }
    return change;
  }

  depth(rank: number, names: readonly string[]): number {
    const end = names.findIndex((name) => !this.uses.has(`${rank} ${name}`));
    return end === -1 ? names.length : end;
  }

  get blocks(): number {
    return new Set([...this.uses.keys()].map((key) => key.slice(key.indexOf(' ') + 1))).size;
  }
}

function namesOf(hashes: Uint32Array): string[] {
  return Array.from({ length: hashes.length >> 1 }, (_, at) => `${hashes[2 * at]} ${hashes[2 * at + 1]}`);
}

/** Long common beginnings, few ways to part: prompts meet and leave each other anywhere. */
const pathArb = fc
  .tuple(fc.nat({ max: 12 }), fc.array(fc.integer({ min: 0, max: 1 }), { maxLength: 6 }), fc.nat({ max: 12 }))
  .map(([head, middle, tail]) => [...Array(head).fill(0), ...middle, ...Array(tail).fill(1)]);
const stepArb = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('acquire' as const), rank: fc.nat({ max: 2 }), path: pathArb }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('release' as const), which: fc.nat() }) },
  {
    weight: 1,
    // Quarters, whose sums are exact.
    arbitrary: fc.record({ kind: fc.constant('lighten' as const), which: fc.nat(), quarters: fc.nat({ max: 4 }) }),
  },
);

describe('blocks in use', () => {
  it('are what one entry for each block and rank says', () => {
    fc.assert(
      fc.property(fc.array(stepArb, { maxLength: 60 }), pathArb, (steps, asked) => {
        const real = new BlockUses(RANKS);
        const naive = new NaiveUses();
        const running: { rank: number; names: string[]; last: number }[] = [];
        for (const step of steps) {
          if (step.kind === 'acquire') {
            const hashes = hashesOf(step.path);
            const names = namesOf(hashes);
            running.push({ rank: step.rank, names, last: real.acquire(step.rank, hashes) });
            expect(real.added).toBe(naive.acquire(step.rank, names));
          } else if (running.length > 0) {
            const at = step.which % running.length;
            const { rank, names, last } = running[at]!;
            if (step.kind === 'lighten') {
              const discount = step.quarters / 4;
              expect(real.lightenTail(last, discount)).toBe(naive.lightenTail(rank, names, discount));
            } else {
              running.splice(at, 1);
              const expected = naive.release(rank, names);
              expect(real.release(last)).toBe(expected.gone);
              expect(real.releasedDiscount).toBe(expected.discount);
            }
          }
          expect(real.blockCount).toBe(naive.blocks);
        }
        const hashes = hashesOf(asked);
        real.matchDepths(hashes);
        for (let rank = 0; rank < RANKS; rank++) {
          expect(real.depths[rank]).toBe(naive.depth(rank, namesOf(hashes)));
        }
        for (const { last } of running) real.release(last);
        expect(real.blockCount).toBe(0);
      }),
      { numRuns: 500 },
    );
  });

  it('are zero once every request has ended, and their memory is used again', () => {
    const uses = new BlockUses(2);
    for (let round = 0; round < 50; round++) {
      const last = Array.from({ length: 20 }, (_, at) =>
        uses.acquire(at % 2, hashesOf([round, at, ...Array(30).fill(1)])),
      );
      expect(uses.blockCount).toBeGreaterThan(0);
      for (const use of last) uses.release(use);
      expect(uses.blockCount).toBe(0);
    }
  });

  it('keep their counts of a prompt after the caller overwrites its hashes', () => {
    const uses = new BlockUses(1);
    const hashes = hashesOf([1, 2, 3]);
    uses.acquire(0, hashes);
    hashes.fill(0);
    uses.matchDepths(hashesOf([1, 2, 4]));
    expect(uses.depths[0]).toBe(2);
  });

  it('stay whole when hashes do not name prefixes', () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(fc.nat({ max: 3 }), { maxLength: 8 }), { maxLength: 12 }),
        fc.array(fc.nat({ max: 3 }), { maxLength: 8 }),
        (prompts, asked) => {
          const uses = new BlockUses(1);
          const pairs = (numbers: readonly number[]) => Uint32Array.from(numbers.flatMap((number) => [number, 0]));
          const last = prompts.map((numbers) => uses.acquire(0, pairs(numbers)));
          uses.matchDepths(pairs(asked));
          expect(uses.depths[0]).toBeLessThanOrEqual(asked.length);
          for (const use of last) uses.release(use);
          expect(uses.blockCount).toBe(0);
        },
      ),
    );
  });
});
