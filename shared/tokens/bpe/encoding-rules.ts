import { asRecord, type UnknownRecord } from '../../records/index.ts';
import { GPT2_PATTERN } from '../patterns/known-patterns.ts';
import { UnsupportedPattern } from '../patterns/parse-pattern.ts';
import { escapePattern, toJsPattern } from './pattern.ts';
import { knownScanner, type WordScanner } from './word-scanners.ts';

/** Splits one piece of text; the parts follow in order, without empty ones. */
type PieceSplitter = (text: string) => readonly string[];

/** Rules by which a byte-level tokenizer finds its words. */
export interface PreTokenizer {
  /** Splitters applied one after another to every piece, before words are scanned. */
  readonly splitters: readonly PieceSplitter[];
  /** Scanner that finds words in a piece; undefined when each piece is one word. */
  readonly scanWord: WordScanner | undefined;
  /**
   * Whether a word always ends where a blank follows a character that is not white space, or where a mark or a line end
   * follows a letter or number.
   */
  readonly endsWordsAtBlanks: boolean;
  /** Whether some text belongs to no word. */
  readonly dropsText: boolean;
}

/**
 * Reads the `pre_tokenizer` of a tokenizer.json: `ByteLevel` by itself, or at the end of a sequence of `Split` and
 * `Digits`. Returns undefined for any other kind, and for patterns that JavaScript cannot express.
 */
export function readPreTokenizer(config: unknown): PreTokenizer | undefined {
  const record = asRecord(config);
  const steps = record?.type === 'Sequence' && Array.isArray(record.pretokenizers) ? record.pretokenizers : [config];
  try {
    return joinSteps(steps.map(asRecord));
  } catch (error) {
    if (error instanceof UnsupportedPattern) return undefined;
    throw error;
  }
}

function joinSteps(steps: readonly (UnknownRecord | undefined)[]): PreTokenizer | undefined {
  const last = steps.at(-1);
  if (last?.type !== 'ByteLevel') return undefined;
  const splitters: PieceSplitter[] = [];
  let scanWord: WordScanner | undefined;
  let endsWordsAtBlanks = false;
  let dropsText = false;
  const useSplit = (pattern: string, rule: SplitRule): void => {
    // A scanner can only come last: any step after it needs its words as pieces.
    if (scanWord !== undefined) splitters.push(piecesOf(scanWord));
    const known = rule === 'isolated' ? knownScanner(pattern) : undefined;
    endsWordsAtBlanks = known !== undefined && splitters.length === 0; // true of every known scanner
    scanWord = rule === 'isolated' ? (known ?? patternScanner(toJsPattern(pattern))) : undefined;
    if (rule === 'isolated') return;
    splitters.push(removingSplitter(toJsPattern(pattern), rule));
    dropsText = true;
  };
  for (const step of steps.slice(0, -1)) {
    const split = readSplit(step);
    if (split === undefined) return undefined;
    useSplit(split.pattern, split.rule);
  }
  if (last.add_prefix_space === true) {
    if (scanWord !== undefined) splitters.push(piecesOf(scanWord));
    scanWord = undefined;
    endsWordsAtBlanks = false;
    splitters.push((text) => [text.startsWith(' ') ? text : ` ${text}`]);
  }
  if (last.use_regex !== false) useSplit(GPT2_PATTERN, 'isolated');
  return { splitters, scanWord, endsWordsAtBlanks, dropsText };
}

/**
 * Which pieces a split keeps: `isolated` keeps the matches and the text between them, the others keep only one of the
 * two.
 */
type SplitRule = 'isolated' | 'matches' | 'gaps';

function readSplit(
  step: UnknownRecord | undefined,
): { readonly pattern: string; readonly rule: SplitRule } | undefined {
  if (step?.type === 'Digits') {
    return { pattern: step.individual_digits === true ? '\\p{N}' : '\\p{N}+', rule: 'isolated' };
  }
  if (step?.type !== 'Split') return undefined;
  const pattern = asRecord(step.pattern);
  const text =
    typeof pattern?.Regex === 'string'
      ? pattern.Regex
      : typeof pattern?.String === 'string'
        ? escapePattern(pattern.String)
        : undefined;
  if (text === undefined) return undefined;
  if (step.behavior === 'Isolated') return { pattern: text, rule: 'isolated' };
  if (step.behavior === 'Removed') return { pattern: text, rule: step.invert === true ? 'matches' : 'gaps' };
  return undefined;
}

function piecesOf(scanWord: WordScanner): PieceSplitter {
  return (text) => {
    const pieces: string[] = [];
    for (let at = 0; at < text.length; ) {
      const end = scanWord(text, at);
      pieces.push(at === 0 && end === text.length ? text : text.slice(at, end));
      at = end;
    }
    return pieces;
  };
}

function patternScanner(pattern: RegExp): WordScanner {
  return (text, at) => {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match === null) return text.length;
    return match.index > at ? match.index : at + match[0].length;
  };
}

function removingSplitter(pattern: RegExp, keep: 'matches' | 'gaps'): PieceSplitter {
  return (text) => {
    if (keep === 'matches') return text.match(pattern) ?? [];
    return text.split(pattern).filter((piece) => piece !== '');
  };
}

/** Brings text into the form that the vocabulary was made for. */
export type Normalize = (text: string) => string;

const FORMS = new Set(['NFC', 'NFD', 'NFKC', 'NFKD']);

/**
 * Reads the `normalizer` of a tokenizer.json: nothing (`normalize` undefined), a Unicode form, or a sequence of them.
 * Returns undefined for any other kind. The Unicode data are Node's: it may reorder the newest combining marks, which
 * an older library leaves alone.
 */
export function readNormalizer(config: unknown): { readonly normalize: Normalize | undefined } | undefined {
  if (config === undefined || config === null) return { normalize: undefined };
  const record = asRecord(config);
  const steps = record?.type === 'Sequence' && Array.isArray(record.normalizers) ? record.normalizers : [config];
  const forms = steps.map((step) => String(asRecord(step)?.type));
  if (!forms.every((form) => FORMS.has(form))) return undefined;
  if (forms.length === 0) return { normalize: undefined };
  return { normalize: (text) => (isAscii(text) ? text : forms.reduce((form, name) => form.normalize(name), text)) };
}

const NOT_ASCII = /[\u0080-\uffff]/;

function isAscii(text: string): boolean {
  return !NOT_ASCII.test(text);
}

/** Ids added before and after an encoded text when special tokens are requested. */
export interface Surroundings {
  readonly prefix: readonly number[];
  readonly suffix: readonly number[];
}

const NONE: Surroundings = { prefix: [], suffix: [] };

/**
 * Reads the `post_processor` of a tokenizer.json: ByteLevel (adds nothing), TemplateProcessing, BertProcessing,
 * RobertaProcessing, or a sequence of them. Returns undefined for other kinds.
 */
export function readPostProcessor(config: unknown): Surroundings | undefined {
  if (config === undefined || config === null) return NONE;
  const record = asRecord(config);
  switch (record?.type) {
    case 'ByteLevel':
      return NONE;
    case 'Sequence':
      return joinSurroundings(Array.isArray(record.processors) ? record.processors : []);
    case 'TemplateProcessing':
      return readTemplate(record.single, record.special_tokens);
    case 'BertProcessing':
    case 'RobertaProcessing':
      return readPair(record.cls, record.sep);
    default:
      return undefined;
  }
}

function joinSurroundings(steps: readonly unknown[]): Surroundings | undefined {
  let joined = NONE;
  for (const step of steps) {
    const one = readPostProcessor(step);
    if (one === undefined) return undefined;
    joined = { prefix: [...one.prefix, ...joined.prefix], suffix: [...joined.suffix, ...one.suffix] };
  }
  return joined;
}

/**
 * Reads a template. `single` lists pieces in order: `{"SpecialToken": {"id": name}}` and once `{"Sequence": {...}}`.
 */
function readTemplate(single: unknown, specialTokens: unknown): Surroundings | undefined {
  if (!Array.isArray(single)) return undefined;
  const parts: { prefix: number[]; suffix: number[] } = { prefix: [], suffix: [] };
  let side = parts.prefix;
  let sequences = 0;
  for (const piece of single) {
    const { Sequence: sequence, SpecialToken: special } = asRecord(piece) ?? {};
    if (sequence !== undefined) {
      sequences++;
      side = parts.suffix;
      continue;
    }
    const entry = asRecord(asRecord(specialTokens)?.[String(asRecord(special)?.id)]);
    if (!Array.isArray(entry?.ids)) return undefined;
    side.push(...entry.ids.map(Number));
  }
  return sequences === 1 ? parts : undefined;
}

function readPair(cls: unknown, sep: unknown): Surroundings | undefined {
  if (!Array.isArray(cls) || !Array.isArray(sep)) return undefined;
  return { prefix: [Number(cls[1])], suffix: [Number(sep[1])] };
}
