import { type AddedToken, AddedTokenSplitter, type SegmentVisitor } from '../added-tokens.ts';
import { toWellFormed } from './byte-text.ts';
import type { EncoderSettings } from './encoder.ts';
import type { Normalize } from './encoding-rules.ts';

/** How long stretches are, in UTF-16 units. */
interface StretchLengths {
  /** Shortest that ends at an added token: below it, finding one costs as much as encoding it. */
  readonly tokenMin: number;
  /** Where there are no added tokens a stretch ends at the first word that ends this far in. */
  readonly words: number;
}

const LENGTHS: StretchLengths = { tokenMin: 512, words: 4096 };

/**
 * Where a word always ends. A blank never joins the word before it. A line end or a comma may join marks, but not letters
 * and numbers: here those that are such under every Unicode form, in Latin, Japanese and Chinese (most letters of other
 * scripts may come apart into a letter and a mark). What stands after the cut composes with nothing before it.
 */
const WORD_END =
  /\P{White_Space}(?= )|[0-9A-Za-z\u3041-\u304a\u3059\u305f\u306a-\u306e\u307e-\u3093\u4e00-\u9fa5](?=[\n\u3001\u3002\uff0c])/gu;

type Rules = Pick<EncoderSettings, 'addedTokens' | 'normalize' | 'preTokenizer'>;

/** Undefined when a token's neighbours decide whether it is one, so that no cut is safe. */
export function cutterFor(
  { addedTokens, normalize, preTokenizer }: Rules,
  lengths?: StretchLengths,
): TextCutter | undefined {
  if (addedTokens.some((token) => token.singleWord)) return undefined;
  const splitter = new AddedTokenSplitter(addedTokens.filter((token) => !token.normalized));
  // Tokens that are matched after normalization are not seen by the cutter, so none may reach over the end of a word.
  const cutsWords =
    preTokenizer.endsWordsAtBlanks && !addedTokens.some((token) => reachesOverWordEnd(token, normalize));
  return new TextCutter(splitter, cutsWords, lengths);
}

function reachesOverWordEnd(token: AddedToken, normalize: Normalize | undefined): boolean {
  const content = normalize?.(token.content) ?? token.content;
  return token.normalized && (token.rstrip || /[\s\u3001\u3002\uff0c]/.test(content));
}

/** Undefined when white space or more of the text may vanish, so that length says nothing. */
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
 * Finds where a text may be taken apart so that the ids of the parts, joined, are the ids of the whole: after added tokens,
 * which no merge crosses, and at ends of words, since words are encoded one by one. A cut depends only on the text since
 * the cut before it and one character more, so texts that begin alike are cut alike.
 *
 *     <|im_start|>user\nwords words words ...| words words<|im_end|>|\n<|im_start|>assistant ...
 */
class TextCutter implements SegmentVisitor {
  readonly #splitter: AddedTokenSplitter;
  readonly #cutsWords: boolean;
  readonly #lengths: StretchLengths;
  #cuts: number[] = [];
  #at = 0;
  #last = 0;

  /** @param splitter of the tokens that are matched in raw text */
  constructor(splitter: AddedTokenSplitter, cutsWords: boolean, lengths = LENGTHS) {
    this.#lengths = lengths;
    this.#splitter = splitter;
    this.#cutsWords = cutsWords;
  }

  /** Ends of the stretches, ascending; the last is the length of `text`. */
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
