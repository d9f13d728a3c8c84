import fc from 'fast-check';
import { expect, it } from 'vitest';
import { noteParts } from '../../../shared/tokens/hashing/known-parts.ts';
import { hashBlocks } from '../../../shared/tokens/index.ts';

function joined(parts: readonly Uint32Array[]): Uint32Array {
  return Uint32Array.from(parts.flatMap((part) => [...part]));
}

const scope = fc.constantFrom({}, { loraName: 'adapter' }, { cacheSalt: 'tenant' });
const part = fc.array(fc.nat(200_000), { maxLength: 90 }).map((ids) => Uint32Array.from(ids));

/** Prompts of parts that come again: behind the same parts, behind others, twice in one prompt. */
const prompts = fc.array(part, { minLength: 1, maxLength: 6 }).chain((pool) =>
  fc.array(
    fc.record({
      parts: fc.array(fc.constantFrom(...pool), { maxLength: 12 }),
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
      for (const { parts, scope: given, ...rest } of asked) {
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
  const parts = [numbers(70, 0), numbers(50, 1000), numbers(33, 2000), numbers(90, 3000), numbers(21, 4000)];
  for (let count = 1; count <= parts.length; count++) {
    const tokens = joined(parts.slice(0, count));
    noteParts(tokens, parts.slice(0, count));
    const options = { blockSizeTokens: 16 };
    expect(hashBlocks(tokens, options)).toEqual(hashBlocks(Uint32Array.from(tokens), options));
  }
});
