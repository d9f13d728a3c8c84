import { readFileSync } from 'node:fs';
import { scanTokenizerJson } from '../../../shared/tokens/bpe/build-tables.ts';
import { createBpeTokenizer } from '../../../shared/tokens/bpe/tokenizer.ts';
import { createDecoder } from '../../../shared/tokens/general/decoder.ts';
import { tabulateGeneral } from '../../../shared/tokens/general/vocabulary.ts';
import { BoundedPattern } from '../../../shared/tokens/patterns/bounded-pattern.ts';
import { UnsupportedPattern } from '../../../shared/tokens/patterns/parse-pattern.ts';
import { beginSteps, PatternBudgetError } from '../../../shared/tokens/patterns/steps.ts';
import { checkTokenizer, checkVocabulary, UnsupportedTokenizer } from '../../../shared/tokens/tokenizer-shape.ts';
import type { HostileValues } from './hostile-values.ts';

const FILE = readFileSync(new URL('../../../shared/artifacts/builtin-model/tokenizer.json', import.meta.url), 'utf8');
const PARTS = ['added_tokens', 'normalizer', 'pre_tokenizer', 'post_processor', 'decoder', 'model', 'version'];
const TYPES = [
  'Sequence',
  'Replace',
  'Prepend',
  'Precompiled',
  'TemplateProcessing',
  'BertProcessing',
  'Split',
  'NFC',
  'ByteLevel',
  'ByteFallback',
  'WordPiece',
  'Metaspace',
  'Strip',
  'CTC',
  'BPEDecoder',
];
const NAMES = [
  'normalizers',
  'pretokenizers',
  'processors',
  'decoders',
  'pattern',
  'content',
  'single',
  'special_tokens',
  'cls',
  'start',
  'stop',
  'prefix',
  'suffix',
  'replacement',
];
const MODEL_NAMES = [
  'type',
  'vocab',
  'merges',
  'unk_id',
  'unk_token',
  'ignore_merges',
  'max_input_chars_per_word',
  'dropout',
];
const ATOMS = [
  'a',
  '.',
  '\\p{L}',
  '\\s',
  '[^\\r\\n]',
  '(a|a)',
  '(?:ab|a)',
  "(?i:'s)",
  '\\d',
  '(?=a)',
  '(?!b)',
  '^',
  '$',
  '(',
  '[',
  '\\1',
  '(?<=a)',
];
const TIMES = ['', '*', '+', '?', '{1,3}', '*?', '{2,}', '{0,1000}', '{9,1}'];

/** The model that decodes with what the hostile part leaves of the decoder. */
const MODEL = { type: 'WordPiece', vocab: { a: 0 } };
const REFUSALS = [SyntaxError, UnsupportedTokenizer, UnsupportedPattern];

/**
 * Loads a tokenizer.json with a hostile part. The loader must refuse it in the product's own words, or the tokenizer
 * must encode and decode texts.
 */
export function loadTokenizerFile(values: HostileValues): void {
  const file = JSON.parse(FILE) as Record<string, unknown>;
  const part = values.one(PARTS);
  const made = { type: values.one(TYPES), [values.one(NAMES)]: values.json(), [values.one(NAMES)]: values.json() };
  if (part === 'model') file.model = { ...(file.model as object), [values.one(MODEL_NAMES)]: values.json() };
  else file[part] = values.one([values.json(), made, { type: 'Sequence', [values.one(NAMES)]: [made, values.json()] }]);
  const text = values.chance(0.2) ? values.brokenText(file) : JSON.stringify(file);
  try {
    const scanned = scanTokenizerJson(Buffer.from(text));
    checkTokenizer(scanned.rest);
    if (values.chance(0.2)) checkVocabulary(JSON.parse(text));
    const general = tabulateGeneral({ ...(JSON.parse(text) as object), model: MODEL });
    createDecoder(general.decoder, (token) => token === 'a')(['a', '<0x41>', '\u2581b', '##c', values.text()]);
    const tokenizer = createBpeTokenizer(scanned);
    tokenizer?.decode(tokenizer.encode(values.text(), { addSpecialTokens: true }));
  } catch (error) {
    const isRefusal = REFUSALS.some((refusal) => error instanceof refusal);
    if (!isRefusal && !(error instanceof PatternBudgetError)) throw error;
  }
}

/**
 * Compiles a pattern of a tokenizer.json. It must be refused, or match as JavaScript's own pattern does in cases that
 * are known to end.
 */
export function matchTokenizerPattern(values: HostileValues): void {
  const atoms = Array.from({ length: 1 + values.random.below(5) }, () => values.one(ATOMS) + values.one(TIMES));
  const source = atoms.join(values.one(['', '|']));
  const text = values.one(['aaaa', 'ab ab\r\n', "it's 12", values.text()]).slice(0, 12);
  let bounded: BoundedPattern;
  try {
    bounded = new BoundedPattern(source, 'gu');
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof UnsupportedPattern) return;
    throw error;
  }
  const expected = new RegExp(source, 'gu').exec(text); // ends, as the text is short
  try {
    beginSteps(text.length);
    const found = bounded.exec(text);
    if (found?.index !== expected?.index || found?.[0] !== expected?.[0]) {
      throw new Error(`${source} matches ${JSON.stringify(found?.[0])} in ${JSON.stringify(text)}`);
    }
  } catch (error) {
    if (!(error instanceof PatternBudgetError)) throw error;
  }
}
