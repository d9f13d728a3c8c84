import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readAddedTokens } from '../../../shared/tokens/added-tokens.ts';
import { scanTokenizerJson } from '../../../shared/tokens/bpe/build-tables.ts';
import { readNormalizer, readPreTokenizer } from '../../../shared/tokens/bpe/encoding-rules.ts';
import { cutterFor } from '../../../shared/tokens/bpe/text-bounds.ts';
import { createBpeTokenizer } from '../../../shared/tokens/bpe/tokenizer.ts';
import { anyText } from '../../support/tokens/texts.ts';
import { BYTE_LEVEL_VARIANTS, builtinTokenizer, type TokenizerJson } from '../../support/tokens/variants.ts';

/** Cuts wherever it may. */
const EVERYWHERE = { tokenMin: 1, words: 1 };

function open(change: (json: TokenizerJson) => void, lengths = EVERYWHERE) {
  const json = builtinTokenizer();
  change(json);
  const tokenizer = createBpeTokenizer(scanTokenizerJson(Buffer.from(JSON.stringify(json))))!;
  const cutter = cutterFor(
    {
      addedTokens: readAddedTokens(json.added_tokens),
      normalize: readNormalizer(json.normalizer)!.normalize,
      preTokenizer: readPreTokenizer(json.pre_tokenizer)!,
    },
    lengths,
  );
  return { tokenizer, cutter };
}

function segmentsOf(text: string, cuts: readonly number[]): string[] {
  return cuts.map((cut, index) => text.slice(cuts[index - 1] ?? 0, cut));
}

/** Letters and numbers that some Unicode form ends with a mark, which takes a line end along. */
const COMING_APART = ['\u0958\n', '\u00e9\n', '\u2474\n', '\ufc5e\n', '\u3050\u3002', '\u00a8 x'];

/** Texts with ends of words in many scripts, between what tokenizers trip over. */
const text = fc
  .array(
    fc.oneof(
      anyText,
      fc.constantFrom(
        ' words',
        ...COMING_APART,
        '! x',
        '7 \n',
        '\u0085 ',
        'e\u0301 b',
        '\u65e5\u3002\u672c',
        'x\n',
        "it's ",
        '\u0301 ',
        ' ',
      ),
    ),
    {
      maxLength: 12,
    },
  )
  .map((parts) => parts.join(''));

const VARIANTS: typeof BYTE_LEVEL_VARIANTS = {
  ...BYTE_LEVEL_VARIANTS,
  NFD: (json) => {
    json.normalizer = { type: 'NFD' };
  },
};

const withoutSingleWords = Object.entries(VARIANTS).filter(([, change]) => open(change).cutter);

describe.each(withoutSingleWords)('the segments of a text: %s', (_name, change) => {
  const { tokenizer, cutter } = open(change);

  it('encode one by one to what the text encodes to', () => {
    fc.assert(
      fc.property(text, (whole) => {
        const segments = segmentsOf(whole, cutter!.cut(whole));
        expect(segments.join('')).toBe(whole);
        expect(segments.flatMap((segment) => [...tokenizer.encode(segment)])).toEqual([...tokenizer.encode(whole)]);
      }),
      { numRuns: 300 },
    );
  });

  it('have at least as many tokens as their length says', () => {
    fc.assert(
      fc.property(text, (whole) => {
        const fewest = tokenizer.fewestTokens?.(whole.length) ?? 0;
        expect(tokenizer.encode(whole).length).toBeGreaterThanOrEqual(fewest);
      }),
    );
  });
});

describe('cuts', () => {
  const plain = open(() => undefined);

  it('stand at ends of words and after added tokens', () => {
    const cuts = (whole: string) => segmentsOf(whole, plain.cutter!.cut(whole));
    expect(cuts('two words<|im_end|>\nmore')).toEqual(['two', ' words<|im_end|>', '\nmore']);
    expect(cuts('\u65e5\u672c\u3002\u8a9e')).toEqual(['\u65e5\u672c', '\u3002\u8a9e']);
    expect(cuts('1, 2')).toEqual(['1,', ' 2']);
    expect(cuts('a\u0085  b\n\n!\n')).toEqual(['a\u0085  b', '\n\n!\n']);
    expect(cuts('')).toEqual([]);
  });

  it('stand after characters that end a word under every Unicode form', () => {
    const forms = ['NFC', 'NFD', 'NFKC', 'NFKD'];
    const isCut = (text: string) => plain.cutter!.cut(`ab${text}`).includes(3);
    const wrong: string[] = [];
    for (let unit = 0; unit < 0x10000; unit++) {
      if ((unit & 0xf800) === 0xd800) continue;
      const character = String.fromCharCode(unit);
      const ends = (pattern: RegExp) => forms.every((form) => pattern.test(character.normalize(form)));
      if (isCut(`${character} x`) && !ends(/\P{White_Space}$/u)) wrong.push(character);
      if (isCut(`${character}\nx`) && !ends(/[\p{L}\p{N}]$/u)) wrong.push(character);
    }
    expect(wrong).toEqual([]);
    expect(isCut('a\nx') && isCut('\u65e5\nx') && isCut('\u3059\u3002x')).toBe(true);
  });

  it('are the same in texts that begin alike, up to the last before they differ', () => {
    const { cutter } = open(() => undefined, { tokenMin: 8, words: 16 });
    fc.assert(
      fc.property(text, text, text, (start, one, other) => {
        const shared = (cuts: readonly number[]) => cuts.filter((cut) => cut < start.length - 24);
        expect(shared(cutter!.cut(start + one))).toEqual(shared(cutter!.cut(start + other)));
      }),
    );
  });

  it('stay away where the neighbours of a token decide about it', () => {
    expect(open(BYTE_LEVEL_VARIANTS['added tokens of every kind']!).cutter).toBeUndefined();
  });

  it('leave words together that a token matched after normalization may span', () => {
    const { cutter } = open((json) => {
      json.added_tokens.push({ id: 1900, content: 'two words', special: false, normalized: true });
    });
    expect(cutter!.cut('two words')).toEqual([9]);
  });

  it('bound the tokens of a text by the longest token, and by half of that where text is composed', () => {
    const { tokenizer } = open((json) => {
      json.normalizer = null;
    });
    expect(tokenizer.fewestTokens!(0)).toBe(0);
    expect(plain.tokenizer.fewestTokens!(100_000)).toBe(Math.ceil(tokenizer.fewestTokens!(100_000) / 2));
    const strips = open((json) => {
      json.added_tokens.push({ id: 1900, content: '<mask>', lstrip: true });
    });
    expect(strips.tokenizer.fewestTokens).toBeUndefined();
  });
});
