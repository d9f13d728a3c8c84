import { asRecord, type UnknownRecord } from '../../records/index.ts';
import { tokenTextToBytes } from '../bpe/byte-text.ts';
import { toJsPattern } from '../bpe/pattern.ts';
import { UnsupportedTokenizer } from '../tokenizer-shape.ts';

/** One step from tokens to text. The pieces are joined after the last step. */
type DecodeStep = (pieces: readonly string[]) => readonly string[];

const METASPACE = '\u2581';
/** A byte-fallback token, e.g. `<0x0A>`. */
const BYTE_TOKEN = /^<0x([0-9A-Fa-f]{2})>$/;

/**
 * Returns a function that turns tokens into text as the `decoder` of a tokenizer.json says. Without a decoder, blanks
 * join the tokens.
 * @param isAdded whether a token was added to the vocabulary
 * @throws UnsupportedTokenizer, or UnsupportedPattern for a pattern
 */
export function createDecoder(
  decoder: unknown,
  isAdded: (token: string) => boolean,
): (tokens: readonly string[]) => string {
  if (decoder === null || decoder === undefined) return (tokens) => tokens.join(' ');
  const step = createStep(asRecord(decoder) ?? {}, isAdded);
  return (tokens) => step(tokens).join('');
}

/** In a sequence, even added tokens are read as spelled bytes. */
const NEVER = (): boolean => false;

function createStep(step: UnknownRecord, isAdded: (token: string) => boolean): DecodeStep {
  switch (step.type) {
    case 'Sequence':
      return inTurn(listOf(step.decoders).map((each) => createStep(asRecord(each) ?? {}, NEVER)));
    case 'ByteLevel':
      return byteLevel(isAdded);
    case 'ByteFallback':
      return byteFallback;
    case 'Fuse':
      return (pieces) => [pieces.join('')];
    case 'Replace':
      return replace(step);
    case 'Strip':
      return strip(textOf(step.content, ''), countOf(step.start), countOf(step.stop));
    case 'Metaspace':
      return metaspace(textOf(step.replacement, METASPACE));
    case 'WordPiece':
      return wordPiece(textOf(step.prefix, ''), step.cleanup === true);
    case 'BPEDecoder':
      return wordEnds(textOf(step.suffix, ''));
    case 'CTC':
      return ctc(step);
    default:
      throw new UnsupportedTokenizer(`Unknown Decoder type: ${String(step.type)}`);
  }
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function textOf(value: unknown, absent: string): string {
  return typeof value === 'string' ? value : absent;
}

function countOf(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}

function inTurn(steps: readonly DecodeStep[]): DecodeStep {
  return (pieces) => steps.reduce((before, step) => step(before), pieces);
}

/** Returns the step that decodes spelled bytes. Added tokens are text as they are. */
function byteLevel(isAdded: (token: string) => boolean): DecodeStep {
  return (pieces) => {
    const texts: string[] = [];
    let spelled: Uint8Array[] = [];
    const endRun = (): void => {
      if (spelled.length > 0) texts.push(Buffer.concat(spelled).toString('utf8'));
      spelled = [];
    };
    for (const piece of pieces) {
      if (!isAdded(piece)) spelled.push(tokenTextToBytes(piece));
      else {
        endRun();
        texts.push(piece);
      }
    }
    endRun();
    return texts;
  };
}

const byteFallback: DecodeStep = (pieces) => {
  const texts: string[] = [];
  let bytes: number[] = [];
  const endRun = (): void => {
    if (bytes.length > 0) texts.push(utf8.decode(Uint8Array.from(bytes)));
    bytes = [];
  };
  for (const piece of pieces) {
    const byte = BYTE_TOKEN.exec(piece);
    if (byte !== null) bytes.push(Number.parseInt(byte[1]!, 16));
    else {
      endRun();
      texts.push(piece);
    }
  }
  endRun();
  return texts;
};

/** Turns each broken sequence of bytes into one U+FFFD. */
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

function replace(step: UnknownRecord): DecodeStep {
  const { String: text, Regex: regex } = asRecord(step.pattern) ?? {};
  const content = textOf(step.content, '');
  if (typeof text === 'string') return (pieces) => pieces.map((piece) => piece.replaceAll(text, () => content));
  if (typeof regex !== 'string') throw new UnsupportedTokenizer('decoder has a pattern that is not a String or Regex');
  const pattern = toJsPattern(regex);
  return (pieces) => pieces.map((piece) => piece.replaceAll(pattern, () => content));
}

/** Returns a step that removes up to `startMax` and `stopMax` copies of one character from the ends. */
function strip(content: string, startMax: number, stopMax: number): DecodeStep {
  return (pieces) =>
    pieces.map((piece) => {
      let start = 0;
      while (start < startMax && start < piece.length && piece[start] === content) start++;
      let stop = 0;
      while (stop < stopMax && stop < piece.length && piece[piece.length - 1 - stop] === content) stop++;
      return piece.slice(start, piece.length - stop);
    });
}

function metaspace(replacement: string): DecodeStep {
  return (pieces) =>
    pieces.map((piece, at) => {
      const text = piece.replaceAll(replacement, ' ');
      return at === 0 && text.startsWith(' ') ? text.slice(1) : text;
    });
}

function wordPiece(prefix: string, cleans: boolean): DecodeStep {
  return (pieces) =>
    pieces.map((piece, at) => {
      let text = piece;
      if (at > 0) text = prefix !== '' && piece.startsWith(prefix) ? piece.slice(prefix.length) : ` ${piece}`;
      return cleans ? cleanUp(text) : text;
    });
}

function wordEnds(suffix: string): DecodeStep {
  return (pieces) => pieces.map((piece, at) => piece.replaceAll(suffix, at === pieces.length - 1 ? '' : ' '));
}

/** Returns a step that keeps one of several equal tokens in a row. */
function ctc({ pad_token: pad, word_delimiter_token: delimiter, cleanup }: UnknownRecord): DecodeStep {
  const padding = textOf(pad, '');
  const blank = textOf(delimiter, '');
  return (pieces) => {
    const kept = pieces.filter((piece, at) => piece !== pieces[at - 1] && piece !== padding);
    const text = kept.join('');
    return [cleanup === true ? cleanUp(text).replaceAll(blank, ' ').trim() : text];
  };
}

const SPACE_BEFORE_MARK = / ([.?!,])/g;
const SPACE_BEFORE_ENDING = / (n't|'m|'s|'ve|'re)/g;

/** Removes the blanks that tokens put before marks and contractions. */
function cleanUp(text: string): string {
  return text.replace(SPACE_BEFORE_MARK, '$1').replaceAll(" ' ", "'").replace(SPACE_BEFORE_ENDING, '$1');
}
