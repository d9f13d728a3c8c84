import { asRecord, type UnknownRecord } from '../records/index.ts';
import type { ScannedTokenizer } from './bpe/build-tables.ts';
import type { BpeTables } from './bpe/tables.ts';

/** How Kimi's tokenizers find words: runs of Han characters apart from letters, which split at changes of case. */
const LETTERS = (first: string): string => `[[${first}\\p{Lm}\\p{Lo}\\p{M}]&&[^\\p{Han}]]`;
const UPPER = LETTERS('\\p{Lu}\\p{Lt}');
const LOWER = LETTERS('\\p{Ll}');
const CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
const KIMI_PATTERN = [
  '[\\p{Han}]+',
  `[^\\r\\n\\p{L}\\p{N}]?${UPPER}*${LOWER}+${CONTRACTION}`,
  `[^\\r\\n\\p{L}\\p{N}]?${UPPER}+${LOWER}*${CONTRACTION}`,
  '\\p{N}{1,3}',
  ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*',
  '\\s*[\\r\\n]+',
  '\\s+(?!\\S)',
  '\\s+',
].join('|');

/** `model_type` of config.json to the pattern of its words; a tiktoken file does not say it. */
const PATTERNS: ReadonlyMap<string | undefined, string> = new Map(
  ['kimi', 'kimi_k2', 'kimi_k25', 'deepseek_v3'].map((modelType) => [modelType, KIMI_PATTERN]),
);

/** Ids after the last rank that are special tokens, named or not. */
const RESERVED_IDS = 256;

/** Model types whose tiktoken files can be read, for messages. */
export const TIKTOKEN_MODEL_TYPES: readonly (string | undefined)[] = [...PATTERNS.keys()];

/** True when the words of this model type's tiktoken file are known. */
export function hasTiktokenPattern(modelType: string | undefined): boolean {
  return PATTERNS.has(modelType);
}

/**
 * Completes the tables of a tiktoken file with what a tokenizer.json would say besides: words from `model_type`, special
 * tokens from tokenizer_config.json's `added_tokens_decoder`.
 * @throws SyntaxError when a special token takes the id of a rank
 */
export function completeTiktoken(
  tables: BpeTables,
  modelType: string | undefined,
  tokenizerConfig: UnknownRecord,
): ScannedTokenizer {
  const isolated = { type: 'Split', pattern: { Regex: PATTERNS.get(modelType) }, behavior: 'Isolated', invert: false };
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, use_regex: false };
  const rest = {
    model: { type: 'BPE', ignore_merges: true }, // a word that is a token is one, whatever its parts
    pre_tokenizer: { type: 'Sequence', pretokenizers: [isolated, byteLevel] },
    decoder: byteLevel,
    added_tokens: specialTokens(tables.flags.length, asRecord(tokenizerConfig.added_tokens_decoder) ?? {}),
  };
  return { rest, tables };
}

/** @param firstId the id after the highest rank */
function specialTokens(firstId: number, decoder: UnknownRecord): readonly UnknownRecord[] {
  const named = new Map<number, UnknownRecord>();
  for (const [key, entry] of Object.entries(decoder)) {
    const id = Number(key);
    if (id < firstId) throw new SyntaxError(`special token ${key} of tokenizer_config.json takes the id of a rank`);
    const { content, special = true } = asRecord(entry) ?? {};
    named.set(id, { id, content, special, normalized: false });
  }
  for (let id = firstId; id < firstId + RESERVED_IDS; id++) {
    if (!named.has(id)) named.set(id, { id, content: `<|reserved_token_${id}|>`, special: true, normalized: false });
  }
  return [...named.values()];
}
