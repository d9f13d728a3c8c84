import { type AddedToken, AddedTokenSplitter, type SegmentVisitor } from '../added-tokens.ts';
import { toWellFormed } from './byte-text.ts';
import type { EncoderSettings } from './encoder.ts';
import type { Normalize } from './encoding-rules.ts';

/** Lengths of segments, in UTF-16 units. */
interface SegmentLengths {
  /** Shortest segment that ends at an added token: for a shorter one, a lookup costs as much as encoding it. */
  readonly tokenMin: number;
  /** Length from which a segment without added tokens ends at the next word end. */
  readonly words: number;
}

const LENGTHS: SegmentLengths = { tokenMin: 512, words: 4096 };

/**
 * Matches before a place where a word always ends. A blank never joins the word before it. A line end or a comma may
 * join marks, but not letters and numbers. Only characters that stay letters or numbers under every Unicode form are
 * listed, in Latin, Japanese and Chinese: most letters of other scripts may decompose into a letter and a mark. The
 * character after the cut composes with nothing before it.
 */
const WORD_END =
  /\P{White_Space}(?= )|[0-9A-Za-z\u3041-\u304a\u3059\u305f\u306a-\u306e\u307e-\u3093\u4e00-\u9fa5](?=[\n\u3001\u3002\uff0c])/gu;

type Rules = Pick<EncoderSettings, 'addedTokens' | 'normalize' | 'preTokenizer'>;

/**
 * Returns the cutter for these rules. Returns undefined when a token counts only next to certain characters: then no
 * cut is safe.
 */
export function cutterFor(
  { addedTokens, normalize, preTokenizer }: Rules,
  lengths?: SegmentLengths,
): TextCutter | undefined {
  if (addedTokens.some((token) => token.singleWord)) return undefined;
  const splitter = new AddedTokenSplitter(addedTokens.filter((token) => !token.normalized));
  // The cutter does not see tokens that are matched after normalization, so none of them may extend over the end of a
  // word.
  const cutsWords =
    preTokenizer.endsWordsAtBlanks && !addedTokens.some((token) => reachesOverWordEnd(token, normalize));
  return new TextCutter(splitter, cutsWords, lengths);
}

function reachesOverWordEnd(token: AddedToken, normalize: Normalize | undefined): boolean {
  const content = normalize?.(token.content) ?? token.content;
  return token.normalized && (token.rstrip || /[\s\u3001\u3002\uff0c]/.test(content));
}

/**
 * Returns a function from a text's length to the fewest tokens it can have. Returns undefined when white space or other
 * text may vanish, so that the length says nothing.
 */
export function fewestTokensFor(
  { addedTokens, normalize, preTokenizer }: Rules,
  lengths: Uint16Array,
): ((units: number) => number) | undefined {
  const isLossless = !addedTokens.some((token) => token.lstrip || token.rstrip) && !preTokenizer.dropsText;
  if (!isLossless) return undefined;
  // A byte holds at most one unit. Composing halves a text at most: no character of n bytes comes from over 2n units.
  let bytesMax = 1;
  for (let id = 0; id < lengths.length; id++) if (lengths[id]! > bytesMax) bytesMax = lengths[id]!;
  const unitsMax = bytesMax * (normalize === undefined ? 1 : 2);
  return (units) => Math.ceil(units / unitsMax);
}

/**
 * Finds where a text may be cut so that the joined ids of the segments are the ids of the whole text. It cuts after
 * added tokens, which no merge crosses, and at ends of words, since words are encoded one by one. A cut depends only on
 * the text since the previous cut and one more character, so texts that begin alike are cut alike.
 *
 *     <|im_start|>user\nwords words words ...| words words<|im_end|>|\n<|im_start|>assistant ...
 */
class TextCutter implements SegmentVisitor {
  readonly #splitter: AddedTokenSplitter;
  readonly #cutsWords: boolean;
  readonly #lengths: SegmentLengths;
  #cuts: number[] = [];
  #at = 0;
  #last = 0;

  /** @param splitter finds the tokens that are matched in raw text */
  constructor(splitter: AddedTokenSplitter, cutsWords: boolean, lengths = LENGTHS) {
    this.#lengths = lengths;
    this.#splitter = splitter;
    this.#cutsWords = cutsWords;
  }

  /** Returns the ends of the segments, ascending; the last one is the length of `text`. */
  cut(text: string): readonly number[] {
    this.#cuts = [];
    this.#at = 0;
    this.#last = 0;
    this.#splitter.split(toWellFormed(text), this);
    if (this.#last < text.length) this.#cuts.push(text.length);
    return this.#cuts;
  }

  text(segment: string): void {
    if (this.#cutsWords) this.#cutWords(segment);
    this.#at += segment.length;
  }

  token(_id: number, units: number): void {
    this.#at += units;
    if (this.#at - this.#last >= this.#lengths.tokenMin) this.#push(this.#at);
  }

  #cutWords(segment: string): void {
    for (;;) {
      WORD_END.lastIndex = Math.max(0, this.#last + this.#lengths.words - this.#at);
      const match = WORD_END.exec(segment);
      if (match === null) return;
      this.#push(this.#at + match.index + match[0].length);
    }
  }

  #push(cut: number): void {
    this.#cuts.push(cut);
    this.#last = cut;
  }
}
