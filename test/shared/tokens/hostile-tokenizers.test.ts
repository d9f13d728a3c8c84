import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadModelFolder, ModelFolderError } from '../../../shared/tokens/index.ts';

const BUILTIN = fileURLToPath(new URL('../../../shared/artifacts/builtin-model', import.meta.url));
const FILE = JSON.parse(readFileSync(join(BUILTIN, 'tokenizer.json'), 'utf8')) as Readonly<Record<string, unknown>>;
const MODEL = FILE.model as Readonly<Record<string, unknown>>;
const HUGE = 2 ** 53;

const withParts = (parts: Readonly<Record<string, unknown>>): string => JSON.stringify({ ...FILE, ...parts });
const withModel = (model: Readonly<Record<string, unknown>>): string => withParts({ model: { ...MODEL, ...model } });
const nested = (part: string, list: string, depth: number): string => {
  const text = `{"type":"Sequence","${list}":[`.repeat(depth) + ']}'.repeat(depth);
  return withParts({ [part]: '@' }).replace('"@"', text);
};
const added = (count: number, more: (at: number) => object = () => ({})): unknown =>
  Array.from({ length: count }, (_, at) => ({ id: 2000 + at, content: `<x${at}>`, special: true, ...more(at) }));
const template = (ids: unknown, pieces = 1): string => {
  const special = Array.from({ length: pieces }, () => ({ SpecialToken: { id: 'a', type_id: 0 } }));
  const single = [...special, { Sequence: { id: 'A', type_id: 0 } }];
  return withParts({ post_processor: { type: 'TemplateProcessing', single, special_tokens: { a: { ids } } } });
};
const unigram = (vocab: unknown, more: object = {}, parts: object = {}): string =>
  JSON.stringify({
    ...{ added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null, ...parts },
    model: { type: 'Unigram', unk_id: 0, vocab, ...more },
  });
const OK = [
  ['<unk>', 0],
  ['a', -1],
];
const wordPiece = (more: object): string => {
  const model = { type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', vocab: { '[UNK]': 0, a: 1 } };
  return JSON.stringify({
    ...{ added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null },
    model: { ...model, ...more },
  });
};
const normalizer = (...normalizers: readonly object[]): string =>
  unigram(OK, {}, { normalizer: { type: 'Sequence', normalizers } });
const doubled = { type: 'Replace', pattern: { String: 'a' }, content: 'aa' };

/** What a hostile writer puts into a tokenizer.json, and the field that the refusal names. */
const HOSTILE: readonly (readonly [name: string, file: string, field: RegExp])[] = [
  ['post-processors 10,000 deep', nested('post_processor', 'processors', 10_000), /post_processor is nested/],
  ['normalizers 10,000 deep', nested('normalizer', 'normalizers', 10_000), /normalizer is nested/],
  ['pre-tokenizers 10,000 deep', nested('pre_tokenizer', 'pretokenizers', 10_000), /pre_tokenizer is nested/],
  ['decoders 10,000 deep', nested('decoder', 'decoders', 10_000), /decoder is nested/],
  ['a normalizer of 1,000 steps', normalizer(...Array(1000).fill({ type: 'NFC' })), /normalizer has more than/],
  ...['normalizer', 'pre_tokenizer', 'post_processor', 'decoder'].flatMap((part) =>
    [5, 'x', [1], {}, { type: 7 }].map(
      (value) => [`${part} ${JSON.stringify(value)}`, withParts({ [part]: value }), new RegExp(part)] as const,
    ),
  ),
  [
    'steps that are not a list',
    withParts({ decoder: { type: 'Sequence', decoders: 5 } }),
    /decoder\.decoders is not a list/,
  ],
  ['a sequence without steps', withParts({ normalizer: { type: 'Sequence' } }), /normalizer has no list of steps/],
  ['a million ids around a text', template(Array(20_000).fill(1), 50), /post_processor puts more than 1024 ids/],
  ...[[-1], [HUGE], ['x'], [null], [1.5], 7].map(
    (ids) => [`ids ${JSON.stringify(ids)}`, template(ids), /post_processor\.special_tokens\.a\.ids/] as const,
  ),
  ...[['a', -5], ['a', 'x'], 'a', ['a', 99_999_999]].map(
    (cls) =>
      [
        `cls ${JSON.stringify(cls)}`,
        withParts({ post_processor: { type: 'BertProcessing', cls, sep: ['b', 3] } }),
        /post_processor\.cls/,
      ] as const,
  ),
  ['100,000 added tokens', withParts({ added_tokens: added(100_000) }), /added_tokens has 100000 entries/],
  [
    'long added tokens that begin alike',
    withParts({ added_tokens: added(50, (at) => ({ content: 'a'.repeat(16_000) + at })) }),
    /added_tokens\[0\] has 16001 characters/,
  ],
  ['added tokens that are not a list', withParts({ added_tokens: { a: 1 } }), /added_tokens is not a list/],
  ['an added token of id -1', withParts({ added_tokens: [{ id: -1, content: '<a>' }] }), /added_tokens\[0\]/],
  ...[3_999_999, 1_048_576].map(
    (id) =>
      [`an added token of id ${id}`, withParts({ added_tokens: [{ id, content: '<a>' }] }), /above 1048575/] as const,
  ),
  [
    'a token of id 3,999,999',
    withModel({ vocab: { ...(MODEL.vocab as object), far: 3_999_999 } }),
    /id 3999999 is above/,
  ],
  [
    '32,768 added tokens that are long',
    withParts({ added_tokens: added(32_768, (at) => ({ content: `${at}`.padEnd(200, 'x') })) }),
    /added_tokens have more than 1048576 characters/,
  ],
  ...[
    [{ String: 'e' }, 'x'.repeat(1000)],
    [{ Regex: 'e' }, 'x'.repeat(1000)],
    [{ String: '' }, 'x'],
    [7, 'x'],
  ].map(
    ([pattern, content]) =>
      [
        `a decoder that makes ${JSON.stringify(pattern)} ${String(content).length} characters`,
        unigram(OK, {}, { decoder: { type: 'Sequence', decoders: [{ type: 'Replace', pattern, content }] } }),
        /decoder\.decoders\[0\](?:\.pattern)? (?:makes texts more than 64|is not a String or Regex)/,
      ] as const,
  ),
  ['a part of 6 MB', withParts({ decoder: { type: 'ByteLevel', more: 'x'.repeat(6_000_000) } }), /besides its tokens/],
  ['a part 100,000 deep', nested('decoder', 'more', 100_000), /nested|no list/],
  ['an added token of id 2^53', withParts({ added_tokens: [{ id: HUGE, content: '<a>' }] }), /added_tokens\[0\]/],
  ...[7, null, [], 'x'].map((model) => [`model ${JSON.stringify(model)}`, withParts({ model }), /model is/] as const),
  ['a vocabulary that is a list', withModel({ vocab: [1, 2] }), /model\.vocab is not an object/],
  ...[-1, HUGE, 1.5, '1', null, 4e9].map(
    (id) => [`token id ${JSON.stringify(id)}`, withModel({ vocab: { a: id } }), /at byte/] as const,
  ),
  ...[[5], { a: 1 }, 'a b', [['a', 'b', 'c']], null].map(
    (merges) => [`merges ${JSON.stringify(merges)}`, withModel({ merges }), /at byte/] as const,
  ),
  ['an unknown model type', withModel({ type: '__proto__' }), /model type "__proto__"/],
  [
    'a score that is not a number',
    unigram([
      ['<unk>', 0],
      ['a', null],
    ]),
    /model\.vocab\[1\] has no score/,
  ],
  [
    'an infinite score',
    unigram([
      ['<unk>', 0],
      ['a', '@'],
    ]).replace('"@"', '1e999'),
    /model\.vocab\[1\] has no score/,
  ],
  ['entries that are not pairs', unigram([5, null]), /model\.vocab\[0\] has no token/],
  [
    'a token of a million characters',
    unigram([
      ['<unk>', 0],
      ['a'.repeat(1e6), -1],
    ]),
    /model\.vocab\[1\] has no token/,
  ],
  ['scores without a list', unigram({ a: 1 }), /model\.vocab is not a list/],
  ...[-1, 9, 'x', HUGE].map((id) => [`unk_id ${id}`, unigram(OK, { unk_id: id }), /model\.unk_id/] as const),
  ...[1e12, 'x', 0, -1, 1.5].map(
    (most) =>
      [`words of ${most}`, wordPiece({ max_input_chars_per_word: most }), /model\.max_input_chars_per_word/] as const,
  ),
  ['a WordPiece vocabulary that is a list', wordPiece({ vocab: ['a'] }), /model\.vocab is not an object/],
  ['a prefix of a million characters', wordPiece({ continuing_subword_prefix: '#'.repeat(1e6) }), /model\.continuing/],
  ...['!!!', 5, 'A'.repeat(5e6)].map(
    (map) =>
      [
        `a character map of ${String(map).slice(0, 3)}`,
        normalizer({ type: 'Precompiled', precompiled_charsmap: map }),
        /normalizer\.normalizers\[0\]\.precompiled_charsmap/,
      ] as const,
  ),
  ['a text that doubles 40 times', normalizer(...Array(40).fill(doubled)), /normalizers\[6\] makes texts more than 64/],
  ['a text that is put everywhere', normalizer({ ...doubled, pattern: { String: '' } }), /normalizers\[0\]\.pattern/],
  ['a text that is not a string', normalizer({ ...doubled, content: 5 }), /normalizers\[0\]\.content/],
  ['a long text in front', normalizer({ type: 'Prepend', prepend: 'x'.repeat(1e6) }), /normalizers\[0\]\.prepend/],
];

describe('a tokenizer.json of unknown origin', () => {
  const folder = mkdtempSync(join(tmpdir(), 'stator-hostile-'));

  beforeAll(() => cpSync(BUILTIN, folder, { recursive: true }));
  afterAll(() => rmSync(folder, { recursive: true }));

  it.each(HOSTILE)('is refused by file and field: %s', async (_, file, field) => {
    writeFileSync(join(folder, 'tokenizer.json'), file);
    const thrown: unknown = await loadModelFolder(folder).catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(ModelFolderError);
    const { message } = thrown as ModelFolderError;
    expect(message).toContain(join(folder, 'tokenizer.json'));
    expect(message).toMatch(field);
    expect(message).not.toContain('\n');
    expect(message.length).toBeLessThan(600);
  });

  it('is taken with what is odd and harmless: empty, repeated and normalized added tokens', async () => {
    const tokens = [
      { id: 1790, content: '', special: true },
      { id: 3, content: '<a>' },
      { id: 4, content: '<a>', normalized: true },
    ];
    writeFileSync(join(folder, 'tokenizer.json'), withParts({ added_tokens: tokens }));
    const { tokenizer } = await loadModelFolder(folder);
    expect(tokenizer.decode(tokenizer.encode('Hello there'))).toBe('Hello there');
  });

  it('is taken with as many added tokens, and as far away, as it may have', async () => {
    const tokens = added(32_767) as object[];
    const far = { id: 1_048_575, content: '<far>', special: true };
    writeFileSync(join(folder, 'tokenizer.json'), withParts({ added_tokens: [...tokens, far] }));
    const { tokenizer } = await loadModelFolder(folder);
    expect([...tokenizer.encode('<x7><far><x32766>')]).toEqual([2007, 1_048_575, 34_766]);
    expect(tokenizer.tokenToId('<far>')).toBe(1_048_575);
    expect(tokenizer.decode([2007, 500_000, 1_048_575], { skipSpecialTokens: false })).toBe('<x7><far>');
  });
});
