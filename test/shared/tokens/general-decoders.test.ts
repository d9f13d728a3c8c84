import { Tokenizer as Library } from '@huggingface/tokenizers';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createDecoder } from '../../../shared/tokens/general/decoder.ts';
import { createGeneralEncode } from '../../../shared/tokens/general/library.ts';
import { createGeneralTokenizer } from '../../../shared/tokens/general/tokenizer.ts';

const PARTS = { added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null };
const ADDED = { id: 3, content: '<x>', special: false };

/** The library's own decoder, for tokens as they are. */
function libraryDecoder(decoder: unknown): (tokens: readonly string[]) => string {
  const model = { type: 'WordPiece', unk_token: 'a', continuing_subword_prefix: '##', vocab: { a: 0 } };
  const library = new Library({ ...PARTS, added_tokens: [ADDED], model, decoder }, {});
  const made = (library as unknown as { decoder: ((tokens: readonly string[]) => string) | null }).decoder;
  return made ?? ((tokens) => tokens.join(' '));
}

const step = fc.oneof(
  fc.constantFrom<object>(
    { type: 'ByteLevel' },
    { type: 'ByteFallback' },
    { type: 'Fuse' },
    { type: 'WordPiece', prefix: '##', cleanup: true },
    { type: 'WordPiece', prefix: '##', cleanup: false },
    { type: 'Metaspace' },
    { type: 'Metaspace', replacement: '_' },
    { type: 'BPEDecoder', suffix: '</w>' },
    { type: 'CTC', pad_token: '<pad>', word_delimiter_token: '|', cleanup: true },
    { type: 'CTC', pad_token: '<pad>', word_delimiter_token: '|', cleanup: false },
    { type: 'Replace', pattern: { String: '\u2581' }, content: ' ' },
    { type: 'Replace', pattern: { Regex: 'l+|\\s' }, content: '.' },
  ),
  fc.record({ type: fc.constant('Strip'), content: fc.constantFrom(' ', 'l'), start: fc.nat(3), stop: fc.nat(3) }),
);
const pieces = [
  'hello',
  '\u2581wor',
  '##ld',
  'ld</w>',
  ' ',
  '_',
  '<0xF0>',
  '<0x9F>',
  '<0x99>',
  '<0x82>',
  '<0x0A>',
].concat([
  '<pad>',
  '|',
  '<x>',
  '.',
  ',',
  "'",
  "n't",
  "'re",
  '\u0120word',
  '\u00e2\u0124\u00ac',
  '\u4f60',
  '\ud83d\ude42',
  'll',
  '',
]);
const tokens = fc.array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 12 });

describe('decoders of any kind', () => {
  it('write what the library writes, alone and in sequences', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 4 }), tokens, (decoders, list) => {
        const decoder = decoders.length === 1 ? decoders[0]! : { type: 'Sequence', decoders };
        const decode = createDecoder(decoder, (token) => token === ADDED.content);
        const expected = libraryDecoder(decoder)(list);
        fc.pre(!expected.includes('\0')); // what it makes of characters that spell no byte
        expect(decode(list)).toBe(expected);
      }),
      { numRuns: 2000 },
    );
  });

  it('put blanks between tokens if the decoder is missing', () => {
    expect(createDecoder(null, () => false)(['a', 'b'])).toBe('a b');
  });

  it('end words as the model says, where there is a decoder', async () => {
    const vocab = { a: 0, 'a</w>': 1, b: 2 };
    const model = { type: 'BPE', vocab, merges: [], unk_token: 'b', end_of_word_suffix: '</w>' };
    const json = { ...PARTS, model, decoder: { type: 'Fuse' } };
    const tokenizer = await createGeneralTokenizer(json);
    expect(tokenizer.decode([0, 1, 2, 1])).toBe('aa ba');
    expect(tokenizer.decode([0, 1, 2, 1])).toBe(
      new Library(json, {}).decode([0, 1, 2, 1], { skip_special_tokens: true }),
    );
    expect((await createGeneralTokenizer({ ...json, decoder: null })).decode([0, 1])).toBe('a a</w>');
  });

  it('are refused by name if they are unknown', () => {
    expect(() => createDecoder({ type: 'Rot13' }, () => false)).toThrow('Unknown Decoder type: Rot13');
  });
});

describe('vocabularies', () => {
  const unigram = (vocab: unknown, more: object = {}): Record<string, unknown> => ({
    ...{ ...PARTS, decoder: { type: 'Fuse' }, model: { type: 'Unigram', unk_id: 0, vocab } },
    ...more,
  });

  it('leave out ids, and count only those that are there', async () => {
    const added = [{ id: 1_048_575, content: '<far>', special: true }];
    const file = unigram([['<unk>', 0]].concat([['a', -1]]), { added_tokens: added });
    const tokenizer = await createGeneralTokenizer(file);
    expect(tokenizer.vocabSize).toBe(3);
    expect(tokenizer.idToToken(5)).toBeUndefined();
    expect(tokenizer.idToToken(1_048_575)).toBe('<far>');
    expect(tokenizer.tokenToId('<far>')).toBe(1_048_575);
    expect(tokenizer.decode([1, 5, 1_048_575, 1, 2_000_000])).toBe('aa');
    expect(tokenizer.decode([1_048_575], { skipSpecialTokens: false })).toBe('<far>');
    expect([...tokenizer.encode('a<far>a')]).toEqual([1, 1_048_575, 1]);
  });

  it('have two tokens of one text: the added one is meant', async () => {
    const vocab = [
      ['<unk>', 0],
      ['a', -1],
      ['b', -1],
      ['b', -2],
    ];
    const tokenizer = await createGeneralTokenizer(
      unigram(vocab, { added_tokens: [{ id: 1, content: 'b', special: true }] }),
    );
    expect(tokenizer.tokenToId('b')).toBe(1);
    expect([2, 3].map((id) => tokenizer.idToToken(id))).toEqual(['b', 'b']);
    expect(tokenizer.decode([2, 1, 3])).toBe(''); // all of them are special
    expect(tokenizer.vocabSize).toBe(2);
  });
});

describe('Unigram', () => {
  const entries = (list: readonly string[], score: (at: number) => number): [string, number][] => [
    ['<unk>', 0],
    ...list.map((token, at): [string, number] => [token, score(at)]),
  ];
  const alphabet = ['a', 'b', 'c', '\u00e9', '\ud83d\ude42', '\ud83d\ude43', '\u2581'];
  const token = fc.array(fc.constantFrom(...alphabet), { minLength: 1, maxLength: 5 }).map((parts) => parts.join(''));
  const text = fc
    .array(fc.constantFrom(...alphabet, 'x', 'y', ' ', '\ud83d\ude44'), { maxLength: 30 })
    .map((parts) => parts.join(''));

  it('gives the ids that the library gives, unknown characters included', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(token, { maxLength: 30 }),
        fc.array(text, { minLength: 5, maxLength: 5 }),
        async (list, texts) => {
          // Sums of these are exact and no two ways are alike, so no rounding decides.
          const vocab = entries(list, (at) => -1 - 2 ** -(at + 2) - at);
          const file = { ...PARTS, model: { type: 'Unigram', unk_id: 0, vocab } };
          const encode = await createGeneralEncode(file);
          const library = new Library(file, {});
          for (const each of texts) {
            expect([...encode(each)]).toEqual(library.encode(each, { add_special_tokens: false }).ids);
          }
        },
      ),
      { numRuns: 100 },
    );
  });

  it('takes a word of any length', async () => {
    const vocab = entries(['a', 'ab', 'b'], (at) => -1 - at);
    const encode = await createGeneralEncode({ ...PARTS, model: { type: 'Unigram', unk_id: 0, vocab } });
    expect(encode('ab'.repeat(200_000))).toHaveLength(200_000);
    expect([...encode('x'.repeat(200_000))]).toEqual([0]);
  });

  it('takes tokens as long as they may be, without an object a letter', async () => {
    const vocab = entries(
      Array.from({ length: 20_000 }, (_, at) => `${at}`.padStart(5, '0').padEnd(256, 'ab')),
      () => -1,
    );
    const encode = await createGeneralEncode({ ...PARTS, model: { type: 'Unigram', unk_id: 0, vocab } });
    expect([...encode(vocab[77]![0] + vocab[19_999]![0])]).toEqual([77, 19_999]);
  });
});
