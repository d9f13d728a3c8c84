import { type AddedToken, AddedTokenSplitter } from '../added-tokens.ts';
import type { EncoderSettings } from './encoder.ts';
import type { Normalize } from './normalizer.ts';
import { type StretchLengths, TextCutter } from './text-cutter.ts';

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
  const unitsMax = lengths.reduce((most, length) => Math.max(most, length), 1) * (normalize === undefined ? 1 : 2);
  return (units) => Math.ceil(units / unitsMax);
}
