/** Words as the tokenizer's own pattern finds them, in JavaScript's dialect; enough for the plain text we train on. */
const WORDS =
  /'(?:s|t|re|ve|m|ll|d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/gu;

interface Word {
  symbols: string[];
  readonly count: number;
}

/**
 * Learns byte-pair merges from `text`: again and again the most frequent pair, the first in code point order among equals,
 * so that the same text always gives the same merges.
 *
 * @param spell how a word's bytes are written in the vocabulary
 */
export function trainMerges(
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
