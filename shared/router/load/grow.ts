/** `words` with room for `length` of them: itself, or a copy of at least twice the size. */
export function growWords(words: Uint32Array<ArrayBuffer>, length: number): Uint32Array<ArrayBuffer> {
  if (length <= words.length) return words;
  const grown = new Uint32Array(Math.max(length, 2 * words.length));
  grown.set(words);
  return grown;
}

/** As `growWords`, for signed ones. */
export function growInts(words: Int32Array<ArrayBuffer>, length: number): Int32Array<ArrayBuffer> {
  if (length <= words.length) return words;
  const grown = new Int32Array(Math.max(length, 2 * words.length));
  grown.set(words);
  return grown;
}

/** As `growWords`, for numbers. */
export function growNumbers(numbers: Float64Array<ArrayBuffer>, length: number): Float64Array<ArrayBuffer> {
  if (length <= numbers.length) return numbers;
  const grown = new Float64Array(Math.max(length, 2 * numbers.length));
  grown.set(numbers);
  return grown;
}
