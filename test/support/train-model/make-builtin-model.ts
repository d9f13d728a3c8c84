import { spellBytes } from '../../../shared/tokens/bpe/byte-text.ts';
import { BUILTIN_CHAT_TEMPLATE } from './chat-template.ts';

/** Number of bytes, merges and control tokens together. */
const VOCABULARY_SIZE = 1792;
/** Context for agents, whose instructions and tools already take 10,000 tokens of so small a vocabulary. */
const CONTEXT_LENGTH_TOKENS = 131_072;
/** Control tokens in the order of their ids, which follow the merges. Answers do not show `special` ones. */
const CONTROL_TOKENS = [
  { content: '<|endoftext|>', special: true },
  { content: '<|im_start|>', special: true },
  { content: '<|im_end|>', special: true },
  { content: '<tool_call>', special: false },
  { content: '</tool_call>', special: false },
  { content: '<think>', special: false },
  { content: '</think>', special: false },
] as const;
const SPLIT_PATTERN =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/**
 * Makes the files of the built-in model, by name, from the texts that define its tokens. The same text always gives the
 * same files. A test compares them with the ones in the tree, and `vitest -u` on that test rewrites them.
 */
export function makeBuiltinModel(text: string): Readonly<Record<string, string>> {
  const merges = trainMerges(text, VOCABULARY_SIZE - 256 - CONTROL_TOKENS.length, spellBytes);
  const vocab: Record<string, number> = {};
  for (const token of byteTokens()) vocab[token] = Object.keys(vocab).length;
  for (const [left, right] of merges) vocab[left + right] ??= Object.keys(vocab).length;
  const firstControlId = Object.keys(vocab).length;
  const idOf = (content: string): number =>
    firstControlId + CONTROL_TOKENS.findIndex((token) => token.content === content);
  const ids = { bos: idOf('<|endoftext|>'), eos: idOf('<|im_end|>') };
  return {
    'tokenizer.json': toJson(tokenizerJson(vocab, merges, firstControlId)),
    'tokenizer_config.json': toJson(tokenizerConfig(firstControlId)),
    'config.json': toJson(modelConfig(firstControlId + CONTROL_TOKENS.length, ids)),
    'generation_config.json': toJson({
      bos_token_id: ids.bos,
      eos_token_id: [ids.eos, ids.bos],
      pad_token_id: ids.bos,
      do_sample: true,
      temperature: 0.7,
      top_p: 0.95,
    }),
  };
}

/** Returns the 256 bytes in the order of their characters, with which byte-level vocabularies begin. */
function byteTokens(): readonly string[] {
  return Array.from({ length: 256 }, (_, byte) => spellBytes(Uint8Array.of(byte))).sort();
}

function tokenizerJson(
  vocab: Readonly<Record<string, number>>,
  merges: readonly (readonly [string, string])[],
  firstControlId: number,
): object {
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false };
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: CONTROL_TOKENS.map((token, index) => ({ id: firstControlId + index, ...addedToken(token) })),
    normalizer: { type: 'NFC' },
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Split', pattern: { Regex: SPLIT_PATTERN }, behavior: 'Isolated', invert: false },
        byteLevel,
      ],
    },
    post_processor: byteLevel,
    decoder: byteLevel,
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: '',
      end_of_word_suffix: '',
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab,
      merges: merges.map(([left, right]) => `${left} ${right}`),
    },
  };
}

function tokenizerConfig(firstControlId: number): object {
  return {
    add_bos_token: false,
    add_prefix_space: false,
    added_tokens_decoder: Object.fromEntries(
      CONTROL_TOKENS.map((token, index) => [String(firstControlId + index), addedToken(token)]),
    ),
    bos_token: null,
    chat_template: BUILTIN_CHAT_TEMPLATE,
    clean_up_tokenization_spaces: false,
    eos_token: '<|im_end|>',
    model_max_length: CONTEXT_LENGTH_TOKENS,
    pad_token: '<|endoftext|>',
    tokenizer_class: 'PreTrainedTokenizerFast',
    unk_token: null,
  };
}

function addedToken(token: (typeof CONTROL_TOKENS)[number]): object {
  return {
    content: token.content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: token.special,
  };
}

/** Returns the shape of a small untrained model. Mock engines read only its lengths. */
function modelConfig(vocabularySize: number, ids: { readonly bos: number; readonly eos: number }): object {
  return {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    vocab_size: vocabularySize,
    hidden_size: 256,
    intermediate_size: 768,
    num_hidden_layers: 4,
    num_attention_heads: 8,
    num_key_value_heads: 4,
    head_dim: 32,
    hidden_act: 'silu',
    max_position_embeddings: CONTEXT_LENGTH_TOKENS,
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    tie_word_embeddings: true,
    torch_dtype: 'bfloat16',
    bos_token_id: ids.bos,
    eos_token_id: ids.eos,
  };
}

function toJson(value: object): string {
  return `${JSON.stringify(value, null, 1)}\n`;
}

/** Words of the tokenizer's own pattern, in JavaScript's dialect. It is enough for the plain text of the training. */
const WORDS =
  /'(?:s|t|re|ve|m|ll|d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/gu;

interface Word {
  symbols: string[];
  readonly count: number;
}

/**
 * Learns byte-pair merges from `text`. Each step takes the most frequent pair, and the first in code point order among
 * equals. So the same text always gives the same merges.
 *
 * @param spell returns the bytes of a word as the vocabulary writes them
 */
function trainMerges(
  text: string,
  mergeCountMax: number,
  spell: (bytes: Uint8Array) => string,
): readonly (readonly [string, string])[] {
  const words = countWords(text, spell);
  const merges: (readonly [string, string])[] = [];
  while (merges.length < mergeCountMax) {
    const best = mostFrequentPair(words);
    if (best === undefined) break;
    merges.push(best);
    for (const word of words) word.symbols = mergePair(word.symbols, best);
  }
  return merges;
}

function countWords(text: string, spell: (bytes: Uint8Array) => string): readonly Word[] {
  const counts = new Map<string, number>();
  for (const [word] of text.matchAll(WORDS)) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].map(([word, count]) => ({ symbols: [...spell(Buffer.from(word))], count }));
}

function mostFrequentPair(words: readonly Word[]): readonly [string, string] | undefined {
  const counts = new Map<string, number>();
  for (const { symbols, count } of words) {
    for (let at = 0; at + 1 < symbols.length; at++) {
      const pair = `${symbols[at]} ${symbols[at + 1]}`;
      counts.set(pair, (counts.get(pair) ?? 0) + count);
    }
  }
  let best = '';
  let bestCount = 0;
  for (const [pair, count] of counts) {
    if (count < bestCount || (count === bestCount && pair > best)) continue;
    best = pair;
    bestCount = count;
  }
  const [left, right] = best.split(' ');
  return left === undefined || right === undefined ? undefined : [left, right];
}

function mergePair(symbols: readonly string[], [left, right]: readonly [string, string]): string[] {
  const merged: string[] = [];
  for (let at = 0; at < symbols.length; at++) {
    if (symbols[at] === left && symbols[at + 1] === right) {
      merged.push(left + right);
      at++;
    } else merged.push(symbols[at]!);
  }
  return merged;
}
