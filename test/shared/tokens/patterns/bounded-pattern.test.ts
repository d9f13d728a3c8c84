import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import { scanTokenizerJson } from '../../../../shared/tokens/bpe/build-tables.ts';
import { toWellFormed } from '../../../../shared/tokens/bpe/byte-text.ts';
import { toJsPattern } from '../../../../shared/tokens/bpe/pattern.ts';
import { createBpeTokenizer } from '../../../../shared/tokens/bpe/tokenizer.ts';
import { createGeneralTokenizer } from '../../../../shared/tokens/general/tokenizer.ts';
import { PromptEncoder } from '../../../../shared/tokens/index.ts';
import { BoundedPattern } from '../../../../shared/tokens/patterns/bounded-pattern.ts';
import { KIMI_PATTERN } from '../../../../shared/tokens/patterns/known-patterns.ts';
import { UnsupportedPattern } from '../../../../shared/tokens/patterns/parse-pattern.ts';
import { beginSteps, PatternBudgetError } from '../../../../shared/tokens/patterns/steps.ts';
import { anyText } from '../../../support/tokens/texts.ts';
import { builtinTokenizer, GENERAL_TOKENIZERS } from '../../../support/tokens/variants.ts';

const PATTERNS = [
  ' ?\\p{L}+| ?\\p{N}{1,3}| ?[^\\p{White_Space}\\p{L}\\p{N}]+|\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+',
  '(?:a|ab)(?:c|bcd)(?:d*)',
  '(?:a*)*b|(?:a|b?)+?c|.',
  '(?:(?=a)a|(?!b).){1,3}?b',
  '(?:(?:a|b){2}){1,2}|a{2,}?b|[^a]',
  '\\ba+?\\b|^b|c$|\\u{1f642}+|\\x61',
  '[[\\p{L}\\p{M}]&&[^\\p{Script=Han}]]+?(?:x|$)',
  '(?:|a|(?:b|)*){0,3}c',
];
const letters = fc.array(fc.constantFrom('a', 'b', 'c', 'd', 'x', ' ', '\u4f60', '\ud83d\ude42'), { maxLength: 12 });
// Short, since JavaScript's own expressions have no budget.
const text = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 12 }),
  letters.map((parts) => parts.join('')),
);

const HOSTILE = [
  '(?:a|a)*(?:a|a)*(?:a|a)*b|(a+)+c',
  '(a+)+b',
  '(?:a*)*b',
  '(?:a?){30}a{30}b',
  '(?=(?:a|aa)+b)a',
  'a*?a*?a*?a*?a*?b',
  '(?:(?:a|)*|a)*b',
  '(?!(?:a|a)*b)c',
];

describe('bounded pattern', () => {
  it.each(PATTERNS)('finds what JavaScript finds: %s', (source) => {
    fc.assert(
      fc.property(text, (given) => {
        const words = toWellFormed(given);
        beginSteps(1_000_000);
        const own = new BoundedPattern(source, 'gv');
        const native = new RegExp(source, 'gv');
        expect(words.match(own)).toEqual(words.match(native));
        expect(words.split(own)).toEqual(words.split(native));
        expect(words.replaceAll(own, '<$&>')).toBe(words.replaceAll(native, '<$&>'));
        expect([...words.matchAll(own)].map(({ index }) => index)).toEqual(
          [...words.matchAll(native)].map(({ index }) => index),
        );
      }),
      { numRuns: 100 },
    );
  });

  it('finds the words of a published tokenizer', () => {
    const native = toJsPattern(KIMI_PATTERN);
    expect(native).not.toBeInstanceOf(BoundedPattern);
    fc.assert(
      fc.property(anyText, (given) => {
        const words = toWellFormed(given);
        beginSteps(words.length); // with what a prompt has
        expect(words.match(new BoundedPattern(native, 'gv'))).toEqual(words.match(native));
      }),
      { numRuns: 100 },
    );
  });

  it.each(HOSTILE)('ends within its budget: %s', (source) => {
    const run = (): unknown => {
      const given = 'a'.repeat(2000);
      beginSteps(given.length);
      return given.match(new BoundedPattern(source, 'gu'));
    };
    expect(run).toThrow(PatternBudgetError);
  });

  it.each(['(?<=a)b', '(?<!a)b', '(a)\\1', '(?<n>a)\\k<n>', '(?:(?:ab){100}){100}', 'a{100000}'])(
    'does not support %s',
    (source) => {
      expect(() => new BoundedPattern(source, 'gu')).toThrow(UnsupportedPattern);
    },
  );
});

const split = (pattern: string, behavior = 'Isolated', invert = false): object => ({
  type: 'Sequence',
  pretokenizers: [
    { type: 'Split', pattern: { Regex: pattern }, behavior, invert },
    { type: 'ByteLevel', add_prefix_space: false, use_regex: false },
  ],
});

describe('tokenizer with a hostile pattern', () => {
  it.each([
    ['Isolated', false],
    ['Removed', false],
    ['Removed', true],
  ] as const)('fails the request alone, and tells its file once: %s, invert %s', async (behavior, invert) => {
    const json = { ...builtinTokenizer(), normalizer: null, pre_tokenizer: split(HOSTILE[0]!, behavior, invert) };
    const tokenizer = createBpeTokenizer(scanTokenizerJson(Buffer.from(JSON.stringify(json))), '/m/tokenizer.json')!;
    const told: (string | undefined)[] = [];
    const encoder = new PromptEncoder({ clock: systemClock, onCostly: (path) => void told.push(path) });
    for (const length of [40, 40, 5000, 50_000]) {
      await expect((async () => encoder.encode(tokenizer, 'a'.repeat(length)))()).rejects.toThrow(PatternBudgetError);
    }
    expect(told).toEqual(['/m/tokenizer.json']);
    expect((await encoder.encode(tokenizer, 'hi')).isWhole).toBe(true);
    await encoder.close();
  });

  const replace = { type: 'Replace', pattern: { Regex: HOSTILE[0] }, content: 'x' };
  it.each([
    ['a normalizer', { normalizer: replace }],
    ['a normalizer in a sequence', { normalizer: { type: 'Sequence', normalizers: [replace] } }],
    ['a pre-tokenizer', { pre_tokenizer: { type: 'Split', pattern: replace.pattern, behavior: 'Isolated' } }],
    ['a decoder', { decoder: { type: 'Sequence', decoders: [replace, { type: 'Fuse' }] } }],
  ])('holds for the general library: %s', async (_, change) => {
    const [make] = Object.values(GENERAL_TOKENIZERS);
    const json = { ...(make!() as object), ...change } as { added_tokens?: object[]; decoder?: unknown };
    const long = 'a'.repeat(60);
    if ('decoder' in change)
      json.added_tokens = [...(json.added_tokens ?? []), { id: 900, content: long, special: false }];
    const tokenizer = await createGeneralTokenizer(json);
    expect(() => ('decoder' in change ? tokenizer.decode([900]) : tokenizer.encode(long))).toThrow(PatternBudgetError);
  });

  it('is not served when its own added tokens are too much for its normalizer', async () => {
    const [make] = Object.values(GENERAL_TOKENIZERS);
    const added = [{ id: 900, content: 'a'.repeat(60), special: false, normalized: true }];
    const json = { ...(make!() as object), normalizer: replace, added_tokens: added };
    await expect(createGeneralTokenizer(json)).rejects.toThrow(PatternBudgetError);
  });
});
