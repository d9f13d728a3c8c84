import fc from 'fast-check';
import { expect, it } from 'vitest';
import { hashParts, noteParts, type Part } from '../../../shared/tokens/hashing/known-parts.ts';
import { hashBlocks } from '../../../shared/tokens/index.ts';

let lastSerial = 0;

function partOf(ids: Uint32Array): Part {
  return { ids, serial: ++lastSerial, place: undefined };
}

function joined(parts: readonly Part[]): Uint32Array {
  return Uint32Array.from(parts.flatMap(({ ids }) => [...ids]));
}

const scope = fc.constantFrom({}, { loraName: 'adapter' }, { cacheSalt: 'tenant' });
const ids = fc.array(fc.nat(200_000), { maxLength: 90 }).map((each) => Uint32Array.from(each));

/** Prompts of parts that come again: behind the same parts, behind others, twice in one prompt. */
const prompts = fc.array(ids, { minLength: 1, maxLength: 6 }).chain((pool) =>
  fc.array(
    fc.record({
      ofPool: fc.array(fc.nat(pool.length - 1), { maxLength: 12 }),
      pool: fc.constant(pool),
      blockSizeTokens: fc.constantFrom(1, 4, 16),
      isEagle: fc.boolean(),
      scope,
    }),
    { minLength: 1, maxLength: 12 },
  ),
);

it('names the blocks of prompts whose parts are known as those of any other prompt', () => {
  fc.assert(
    fc.property(prompts, (asked) => {
      const known = asked[0]?.pool.map(partOf) ?? [];
      for (const { ofPool, scope: given, ...rest } of asked) {
        const parts = ofPool.map((at) => known[at] as Part);
        const options = { ...rest, ...given };
        const tokens = joined(parts);
        const expected = hashBlocks(tokens, options);
        noteParts(tokens, parts);
        expect(hashBlocks(tokens, options)).toEqual(expected); // learns
        expect(hashBlocks(tokens, options)).toEqual(expected); // knows
      }
    }),
    { numRuns: 300 },
  );
});

it('names the blocks of a prompt that goes on where a known one ended', () => {
  const numbers = (count: number, from: number) => Uint32Array.from({ length: count }, (_, at) => from + at);
  const parts = [numbers(70, 0), numbers(50, 1000), numbers(33, 2000), numbers(90, 3000), numbers(21, 4000)].map(
    partOf,
  );
  for (let count = 1; count <= parts.length; count++) {
    const tokens = joined(parts.slice(0, count));
    noteParts(tokens, parts.slice(0, count));
    const options = { blockSizeTokens: 16 };
    expect(hashBlocks(tokens, options)).toEqual(hashBlocks(Uint32Array.from(tokens), options));
  }
});

it('hashes only what is new of a prompt', () => {
  const numbers = (count: number, from: number) => partOf(Uint32Array.from({ length: count }, (_, at) => from + at));
  const shared = [numbers(64, 0), numbers(64, 1000), numbers(64, 2000), numbers(64, 3000)];
  const hashedFrom = (parts: readonly Part[]): number => {
    let first = -1;
    const words = joined(parts).length >> 3;
    const hashes = { local: new Uint32Array(words), sequence: new Uint32Array(words) };
    const hash = (from: number) => {
      first = from;
    };
    hashParts(parts, hashes, { recipe: 'same', blocksIn: (tokens) => tokens >> 4, hash });
    return first;
  };
  const [one, two, three, four] = shared as [Part, Part, Part, Part];
  const other = numbers(64, 9000);
  expect(hashedFrom(shared)).toBe(0);
  expect(hashedFrom(shared)).toBe(16); // all of it is known
  expect(hashedFrom([...shared, numbers(40, 4000)])).toBe(16); // the next turn
  expect(hashedFrom([one, two, other, four])).toBe(8); // behind another part the last one is another
  expect(hashedFrom([one, two, other, four, three])).toBe(16);
  expect(hashedFrom([two, three])).toBe(0); // at the start of a prompt they are others than inside it
  expect(hashedFrom([one, two, other, numbers(64, 5000)])).toBe(12); // nothing was forgotten of what it shares with others
  expect(hashedFrom([numbers(64, 8000), one, two])).toBe(0);
});
