import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { builtinModelPath } from '../../../shared/artifacts/index.ts';

export type TokenizerJson = Record<string, unknown> & {
  added_tokens: Record<string, unknown>[];
  model: Record<string, unknown> & { vocab: Record<string, number>; merges: string[] };
};

/** Returns a fresh copy of the built-in tokenizer.json. */
export function builtinTokenizer(): TokenizerJson {
  return JSON.parse(readFileSync(join(builtinModelPath(), 'tokenizer.json'), 'utf8')) as TokenizerJson;
}

const byteLevel = (options: object = {}): object => ({
  type: 'ByteLevel',
  add_prefix_space: false,
  trim_offsets: true,
  use_regex: false,
  ...options,
});
const split = (pattern: string, options: object = {}): object => ({
  type: 'Split',
  pattern: { Regex: pattern },
  behavior: 'Isolated',
  invert: false,
  ...options,
});
const sequence = (...pretokenizers: object[]): object => ({ type: 'Sequence', pretokenizers });

const LLAMA3 =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const O200K = [
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
  '\\p{N}{1,3}',
  ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*',
  '\\s*[\\r\\n]+',
  '\\s+(?!\\S)',
  '\\s+',
].join('|');
const DEEPSEEK =
  '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';

/** Configurations of real model families, each as a change to the built-in tokenizer. */
export const BYTE_LEVEL_VARIANTS: Readonly<Record<string, (json: TokenizerJson) => void>> = {
  'Qwen pattern, NFC': () => undefined,
  'Llama 3 pattern, ignore_merges, BOS': (json) => {
    json.normalizer = null;
    json.pre_tokenizer = sequence(split(LLAMA3), byteLevel());
    json.model.ignore_merges = true;
    json.post_processor = {
      type: 'Sequence',
      processors: [
        byteLevel(),
        {
          type: 'TemplateProcessing',
          single: [{ SpecialToken: { id: '<|endoftext|>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
          pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }],
          special_tokens: { '<|endoftext|>': { id: '<|endoftext|>', ids: [1785], tokens: ['<|endoftext|>'] } },
        },
      ],
    };
  },
  'GPT-2, pattern of ByteLevel': (json) => {
    json.normalizer = null;
    json.pre_tokenizer = byteLevel({ use_regex: true });
    json.decoder = byteLevel({ add_prefix_space: true });
  },
  'RoBERTa, prefix space and CLS': (json) => {
    json.normalizer = null;
    json.pre_tokenizer = byteLevel({ use_regex: true, add_prefix_space: true });
    json.post_processor = {
      type: 'RobertaProcessing',
      sep: ['<|im_end|>', 1787],
      cls: ['<|im_start|>', 1786],
      trim_offsets: true,
      add_prefix_space: true,
    };
  },
  'o200k pattern': (json) => {
    json.normalizer = null;
    json.pre_tokenizer = sequence(split(O200K), byteLevel());
  },
  'DeepSeek, three patterns': (json) => {
    json.normalizer = { type: 'Sequence', normalizers: [] };
    json.pre_tokenizer = sequence(
      split('\\p{N}{1,3}'),
      split('[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+'),
      split(DEEPSEEK),
      byteLevel(),
    );
  },
  'StarCoder, single digits': (json) => {
    json.pre_tokenizer = sequence({ type: 'Digits', individual_digits: true }, byteLevel({ use_regex: true }));
  },
  'runs of digits, prefix space on every piece': (json) => {
    json.pre_tokenizer = sequence(
      { type: 'Digits', individual_digits: false },
      byteLevel({ use_regex: true, add_prefix_space: true }),
    );
  },
  'matches kept, the rest removed': (json) => {
    json.pre_tokenizer = sequence(split(LLAMA3, { behavior: 'Removed', invert: true }), byteLevel());
  },
  'separators removed': (json) => {
    json.pre_tokenizer = sequence(split('[,;]\\s*', { behavior: 'Removed' }), split('a+|b+'), byteLevel());
  },
  'literal separator': (json) => {
    json.pre_tokenizer = sequence(
      { type: 'Split', pattern: { String: '.(' }, behavior: 'Isolated', invert: false },
      byteLevel({ use_regex: true }),
    );
  },
  'whole text as one word': (json) => {
    json.pre_tokenizer = byteLevel();
  },
  NFKC: (json) => {
    json.normalizer = { type: 'Sequence', normalizers: [{ type: 'NFD' }, { type: 'NFKC' }] };
  },
  'added tokens of every kind': (json) => {
    const kinds = [
      { content: '<mask>', lstrip: true },
      { content: '<end>', rstrip: true },
      { content: '<both>', lstrip: true, rstrip: true },
      { content: 'word', single_word: true },
      { content: 'caf\u00e9', normalized: true },
      { content: '<a', special: true },
      { content: '<ab', special: true },
      { content: '  ', normalized: true },
      { content: '\u20ac\u20ac' },
      { content: 'two words', special: true },
      { content: '\u00ff\u0120x', special: true },
    ];
    json.added_tokens.push(
      ...kinds.map((kind, index) => ({
        id: 1792 + index,
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized: false,
        special: false,
        ...kind,
      })),
    );
  },
  'merges as pairs': (json) => {
    json.model.merges = json.model.merges.map((merge) => merge.split(' ')) as unknown as string[];
  },
};

const UNUSED = { normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null, added_tokens: [] };

/** Tokenizers of other kinds, which run on the general library. */
export const GENERAL_TOKENIZERS: Readonly<Record<string, () => Record<string, unknown>>> = {
  'Llama 2: BPE with byte fallback': () => {
    const pieces = [
      '\u2581',
      'h',
      'e',
      'l',
      'o',
      'w',
      'r',
      'd',
      'he',
      'll',
      'hell',
      'hello',
      '\u2581hello',
      'wo',
      '\u00e9',
      '\u4f60',
    ];
    const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);
    const vocab = Object.fromEntries(['<unk>', '<s>', '</s>', ...bytes, ...pieces].map((token, id) => [token, id]));
    return {
      ...UNUSED,
      version: '1.0',
      added_tokens: ['<unk>', '<s>', '</s>'].map((content, id) => ({
        ...{ id, content, special: true, normalized: false },
        ...{ lstrip: false, rstrip: false, single_word: false },
      })),
      normalizer: {
        type: 'Sequence',
        normalizers: [
          { type: 'Prepend', prepend: '\u2581' },
          { type: 'Replace', pattern: { String: ' ' }, content: '\u2581' },
        ],
      },
      post_processor: {
        type: 'TemplateProcessing',
        single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
        pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }],
        special_tokens: { '<s>': { id: '<s>', ids: [1], tokens: ['<s>'] } },
      },
      decoder: {
        type: 'Sequence',
        decoders: [
          { type: 'Replace', pattern: { String: '\u2581' }, content: ' ' },
          { type: 'ByteFallback' },
          { type: 'Fuse' },
          { type: 'Strip', content: ' ', start: 1, stop: 0 },
        ],
      },
      model: {
        ...{
          type: 'BPE',
          dropout: null,
          unk_token: '<unk>',
          continuing_subword_prefix: null,
          end_of_word_suffix: null,
        },
        ...{ fuse_unk: true, byte_fallback: true, ignore_merges: false, vocab },
        merges: ['h e', 'l l', 'he ll', 'hell o', '\u2581 hello', 'w o'],
      },
    };
  },
  'BERT: WordPiece': () => {
    const tokens = ['[UNK]', '[CLS]', '[SEP]', 'hello', 'world', '##s', 'w', '##or', '##ld', '!', ','];
    return {
      ...UNUSED,
      version: '1.0',
      added_tokens: ['[UNK]', '[CLS]', '[SEP]'].map((content, id) => ({
        ...{ id, content, special: true, normalized: false },
        ...{ lstrip: false, rstrip: false, single_word: false },
      })),
      normalizer: {
        type: 'BertNormalizer',
        ...{ clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
      },
      pre_tokenizer: { type: 'BertPreTokenizer' },
      post_processor: { type: 'BertProcessing', sep: ['[SEP]', 2], cls: ['[CLS]', 1] },
      decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
      model: {
        ...{ type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100 },
        vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      },
    };
  },
  'T5: Unigram with metaspace': () => ({
    ...UNUSED,
    version: '1.0',
    added_tokens: [
      {
        ...{ id: 0, content: '<unk>', special: true, normalized: false },
        ...{ lstrip: false, rstrip: false, single_word: false },
      },
    ],
    pre_tokenizer: { type: 'Metaspace', replacement: '\u2581', prepend_scheme: 'always', split: true },
    decoder: { type: 'Metaspace', replacement: '\u2581', prepend_scheme: 'always', split: true },
    model: {
      type: 'Unigram',
      unk_id: 0,
      byte_fallback: false,
      vocab: [
        ['<unk>', 0],
        ...['\u2581', 'h', 'e', 'l', 'o', 'w', 'r', 'd', '\u2581hello', '\u2581wor', 'ld', '\u2581world'].map(
          (token, index) => [token, -2 - index / 7],
        ),
      ],
    },
  }),
};
