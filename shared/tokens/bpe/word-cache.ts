/** Longer words are rare and not worth their place. UTF-16 units; must fit 6 bits. */
export const CACHED_UNITS_MAX = 40;
/** Words of more tokens are not kept. Must fit 6 bits. */
const CACHED_TOKENS_MAX = 63;
const SLOTS = 0x20000;
const WORDS_MAX = 0x14000; // 62 % of the slots
const UNITS_MAX = 0x80000;
const TOKENS_MAX = 0x40000;

/**
 * Tokens of words seen before, without a string or an object per word. Bounded to 82,000 words (about 6 MB, taken as it
 * fills): when one of the arenas is full everything is forgotten, which costs less than keeping an order of use.
 *
 *     slots[4 * slot]   hash of the word (0 = empty) | unit start, length | token start, count | first token
 */
export class WordCache {
  readonly #slots = new Int32Array(4 * SLOTS);
  readonly #units = new Uint16Array(UNITS_MAX);
  readonly #tokens = new Int32Array(TOKENS_MAX);
  #words = 0;
  #unitsUsed = 0;
  #tokensUsed = 0;
  /** Of the word that `read` did not find. */
  #missedHash = 0;
  /** Times the cache was full and started over. */
  resets = 0;

  /**
   * Copies the tokens of the word `text[at .. end)` to `out[to ..]` (63 places must be free) and returns their number; 0 when
   * unknown. Its steps stand in one function, as every word goes through it: of several, V8 inlines now these, now those.
   */
  read(text: string, at: number, end: number, out: Uint32Array, to: number): number {
    let hash = 0x811c9dc5;
    for (let from = at; from < end; from++) hash = Math.imul(hash ^ text.charCodeAt(from), 0x01000193);
    hash ^= hash >>> 15;
    if (hash === 0) hash = 1;
    const slots = this.#slots;
    const units = this.#units;
    for (let slot = (hash & (SLOTS - 1)) << 2; ; slot = (slot + 4) & (4 * SLOTS - 1)) {
      const found = slots[slot]!;
      if (found === 0) {
        this.#missedHash = hash;
        return 0;
      }
      const place = slots[slot + 1]!;
      if (found !== hash || (place & 63) !== end - at) continue;
      const shift = (place >>> 6) - at;
      let from = at;
      while (from < end && units[shift + from] === text.charCodeAt(from)) from++;
      if (from < end) continue;
      const tokens = slots[slot + 2]!;
      out[to] = slots[slot + 3]!;
      const count = tokens & 63;
      if (count > 1) this.#copyRest(tokens >>> 6, count, out, to);
      return count;
    }
  }

  /** Remembers `ids[0 .. count)` as the tokens of the word `text[at .. end)`, which `read` has just not found. */
  write(text: string, at: number, end: number, ids: Int32Array, count: number): void {
    const hash = this.#missedHash;
    const length = end - at;
    if (length > CACHED_UNITS_MAX || count > CACHED_TOKENS_MAX) return;
    const isFull =
      this.#words === WORDS_MAX || this.#unitsUsed + length > UNITS_MAX || this.#tokensUsed + count > TOKENS_MAX;
    if (isFull) this.#clear();
    const slots = this.#slots;
    let slot = (hash & (SLOTS - 1)) << 2;
    while (slots[slot] !== 0) slot = (slot + 4) & (4 * SLOTS - 1);
    slots[slot] = hash;
    slots[slot + 1] = (this.#unitsUsed << 6) | length;
    slots[slot + 2] = (this.#tokensUsed << 6) | count;
    slots[slot + 3] = ids[0]!;
    for (let from = at; from < end; from++) this.#units[this.#unitsUsed++] = text.charCodeAt(from);
    if (count > 1) for (let from = 0; from < count; from++) this.#tokens[this.#tokensUsed++] = ids[from]!;
    this.#words++;
  }

  #copyRest(start: number, count: number, out: Uint32Array, to: number): void {
    for (let step = 1; step < count; step++) out[to + step] = this.#tokens[start + step]!;
  }

  #clear(): void {
    this.#slots.fill(0);
    this.#words = 0;
    this.#unitsUsed = 0;
    this.#tokensUsed = 0;
    this.resets++;
  }
}
