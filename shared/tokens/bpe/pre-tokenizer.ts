import { asRecord, type UnknownRecord } from '../../records/index.ts';
import { escapePattern, toJsPattern, UnsupportedPattern } from './pattern.ts';
import { GPT2_PATTERN, knownScanner, type WordScanner } from './word-scanners.ts';

/** Takes one piece of text apart; pieces follow in order, empty ones left out. */
type PieceSplitter = (text: string) => readonly string[];

/** How a byte-level tokenizer finds its words. */
export interface PreTokenizer {
  /** Applied one after the other to every piece, before words are scanned. */
  readonly splitters: readonly PieceSplitter[];
  /** Finds words in a piece; undefined when each piece is one word. */
  readonly scanWord: WordScanner | undefined;
  /** A word always ends where a blank follows what is no white space, or a mark or a line end follows a letter or number. */
  readonly endsWordsAtBlanks: boolean;
  /** Some text is in no word. */
  readonly dropsText: boolean;
}

/**
 * Reads the `pre_tokenizer` of a tokenizer.json: `ByteLevel`, alone or at the end of a sequence of `Split` and `Digits`.
 * Undefined for any other kind, and for patterns that JavaScript cannot express.
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
    // A scanner can only stand last: what follows it needs its words as pieces.
    if (scanWord !== undefined) splitters.push(piecesOf(scanWord));
    const known = rule === 'isolated' ? knownScanner(pattern) : undefined;
    endsWordsAtBlanks = known !== undefined && splitters.length === 0; // true of every scanner that is known
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

/** `isolated`: matches and what is between them are pieces; otherwise only matches, or only what is between them. */
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
