/**
 * Words of Kimi's tokenizers: runs of Han characters are separate from letters, and letters split at changes of case.
 */
const LETTERS = (first: string): string => `[[${first}\\p{Lm}\\p{Lo}\\p{M}]&&[^\\p{Han}]]`;
const UPPER = LETTERS('\\p{Lu}\\p{Lt}');
const LOWER = LETTERS('\\p{Ll}');
const CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";

export const KIMI_PATTERN = [
  '[\\p{Han}]+',
  `[^\\r\\n\\p{L}\\p{N}]?${UPPER}*${LOWER}+${CONTRACTION}`,
  `[^\\r\\n\\p{L}\\p{N}]?${UPPER}+${LOWER}*${CONTRACTION}`,
  '\\p{N}{1,3}',
  ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*',
  '\\s*[\\r\\n]+',
  '\\s+(?!\\S)',
  '\\s+',
].join('|');

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

const CONTRACTIONS = "'(?i:[sdmt]|ll|ve|re)";
const MODERN_END = '\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';

/** Pattern of GPT-2, which `ByteLevel` applies by itself. */
export const GPT2_PATTERN = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/** Returns the pattern of cl100k, Llama 3 and Qwen. @param digits pattern of one piece of a number */
export const modernPattern = (digits: '\\p{N}' | '\\p{N}{1,3}'): string =>
  `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${MODERN_END}`;

/** Patterns of published tokenizers. None of them scans a text more than a few times. */
const KNOWN: ReadonlySet<string> = new Set([
  KIMI_PATTERN,
  O200K,
  DEEPSEEK,
  GPT2_PATTERN,
  modernPattern('\\p{N}'),
  modernPattern('\\p{N}{1,3}'),
  `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${MODERN_END}`,
  // Mistral's: letters split at changes of case, without contractions
  `[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${MODERN_END}`,
  // Qwen's newer ones: marks belong to letters
  `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${MODERN_END}`,
  '[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+',
  '\\p{N}',
  '\\p{N}+',
  '\\p{N}{1,3}',
  '[0-9]',
  ' {2,}',
]);

/** Returns whether a pattern of the Oniguruma dialect is safe for JavaScript's own expressions. */
export function isKnownPattern(pattern: string): boolean {
  return KNOWN.has(pattern);
}
