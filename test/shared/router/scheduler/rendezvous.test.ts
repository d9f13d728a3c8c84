import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  chooseByRendezvous,
  loadBound,
  type PrefixKey,
  prefixKeyOf,
  requestKeyOf,
} from '../../../../shared/router/scheduler/rendezvous.ts';
import { hashBlocks } from '../../../../shared/tokens/index.ts';

const u32 = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const key = fc.tuple(u32, u32);
const worker = fc.record({
  id: fc.bigInt({ min: 0n, max: 2n ** 53n - 1n }).map((id) => id.toString(16)),
  load: fc.nat(50),
});
const workers = fc.uniqueArray(worker, { selector: ({ id }) => id, minLength: 1, maxLength: 40 });

describe('bounded-load rendezvous hashing', () => {
  it('agrees between processes, whatever the order in which they know the workers', () => {
    fc.assert(
      fc.property(key, workers, fc.func(fc.nat()), (prefix, fleet, order) => {
        const shuffled = [...fleet].sort((left, right) => order(left.id) - order(right.id));
        expect(chooseByRendezvous(prefix, shuffled)?.id).toBe(chooseByRendezvous(prefix, fleet)?.id);
      }),
    );
  });

  it('gives a worker that restarts under another id its prefixes back, if it has a name that outlives it', () => {
    fc.assert(
      fc.property(key, workers, (prefix, fleet) => {
        const named = fleet.map((worker, at) => ({ ...worker, stableId: `worker-${at}` }));
        const restarted = named.map((worker, at) => ({ ...worker, id: `f${at}` }));
        expect(chooseByRendezvous(prefix, restarted)?.stableId).toBe(chooseByRendezvous(prefix, named)?.stableId);
      }),
    );
  });

  it('always finds a worker, and none that would be loaded above the bound', () => {
    fc.assert(
      fc.property(key, workers, fc.double({ min: 1, max: 4, noNaN: true }), (prefix, fleet, factor) => {
        const chosen = chooseByRendezvous(prefix, fleet, factor);
        expect(chosen).toBeDefined();
        expect((chosen?.load ?? 0) + 1).toBeLessThanOrEqual(loadBound(fleet, factor));
      }),
    );
  });

  it('keeps every worker within the bound while requests are added one by one', () => {
    const fleet = Array.from({ length: 10 }, (_, at) => ({ id: (at + 1).toString(16), load: 0 }));
    for (let request = 0; request < 1000; request++) {
      const chosen = chooseByRendezvous([7, 7], fleet); // all of one prefix
      if (chosen !== undefined) chosen.load++;
    }
    expect(Math.max(...fleet.map(({ load }) => load))).toBeLessThanOrEqual(126);
    expect(fleet.reduce((sum, { load }) => sum + load, 0)).toBe(1000);
  });

  it('moves only the keys of a worker that leaves', () => {
    fc.assert(
      fc.property(fc.array(key, { minLength: 1, maxLength: 20 }), workers, fc.nat(), (prefixes, fleet, at) => {
        const idle = fleet.map(({ id }) => ({ id, load: 0 }));
        const gone = idle[at % idle.length]!;
        const left = idle.filter(({ id }) => id !== gone.id);
        for (const prefix of prefixes) {
          const before = chooseByRendezvous(prefix, idle);
          if (before?.id !== gone.id) expect(chooseByRendezvous(prefix, left)?.id).toBe(before?.id);
        }
      }),
    );
  });

  it('spreads prefixes evenly', () => {
    const idle = Array.from({ length: 16 }, (_, at) => ({ id: (0x1000 + at).toString(16), load: 0 }));
    const counts = new Map<string, number>();
    for (let prefix = 0; prefix < 16_000; prefix++) {
      const id = chooseByRendezvous([Math.imul(prefix, 0x9e3779b1) >>> 0, prefix], idle)?.id ?? '';
      counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    for (const count of counts.values()) expect(Math.abs(count - 1000)).toBeLessThan(150);
    expect(counts.size).toBe(16);
  });

  it('has nobody to choose from an empty fleet', () => {
    expect(chooseByRendezvous([1, 2], [])).toBeUndefined();
  });
});

describe('the key of a prompt', () => {
  const tokens = Uint32Array.from({ length: 400 }, (_, at) => at);
  const keyFor = (prompt: Uint32Array): PrefixKey | undefined =>
    prefixKeyOf(hashBlocks(prompt, { blockSizeTokens: 16 }));

  it('is the same for prompts that have eight blocks in common', () => {
    const other = tokens.slice();
    other[128] = 9999;
    expect(keyFor(other)).toEqual(keyFor(tokens));
    other[127] = 9999;
    expect(keyFor(other)).not.toEqual(keyFor(tokens));
  });

  it('is that of all blocks of a shorter prompt, and absent without one', () => {
    expect(keyFor(tokens.slice(0, 40))).toEqual(keyFor(tokens.slice(0, 32)));
    expect(keyFor(tokens.slice(0, 15))).toBeUndefined();
    expect(requestKeyOf('a')).not.toEqual(requestKeyOf('b'));
  });
});
