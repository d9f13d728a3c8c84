import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Random, seededRandom, systemRandom } from '../../../shared/clock/index.ts';

function draw(random: Random, count: number): readonly number[] {
  return Array.from({ length: count }, () => random.next());
}

describe('seededRandom', () => {
  it('repeats itself for a seed and differs between seeds', () => {
    expect(draw(seededRandom(7), 20)).toEqual(draw(seededRandom(7), 20));
    expect(draw(seededRandom(7), 20)).not.toEqual(draw(seededRandom(8), 20));
  });

  it('spreads evenly', () => {
    const counts = new Array<number>(10).fill(0);
    const random = seededRandom(1);
    for (let index = 0; index < 10_000; index++) counts[random.below(10)]! += 1;
    for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(150);
  });
});

describe.each<[string, (seed: number) => Random]>([
  ['seeded', seededRandom],
  ['the machine’s', () => systemRandom],
])('%s chance', (_name, make) => {
  it('stays in its ranges and shapes', () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 1, max: 1_000_000 }), (seed, bound) => {
        const random = make(seed);
        const drawn = random.next();
        expect(drawn >= 0 && drawn < 1).toBe(true);
        const below = random.below(bound);
        expect(Number.isInteger(below) && below >= 0 && below < bound).toBe(true);
        expect(random.uuid()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
        expect(random.instanceId()).toMatch(/^(0|[1-9a-f][0-9a-f]{0,13})$/);
        expect(Number.isSafeInteger(Number.parseInt(random.instanceId(), 16))).toBe(true);
      }),
    );
  });
});
