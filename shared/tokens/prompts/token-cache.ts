import type { Tokenizer } from '../types.ts';

interface Entry {
  readonly text: string;
  readonly ids: Uint32Array;
  readonly bytes: number;
  readonly home: Map<string, Entry>;
  newer: Entry | undefined;
  older: Entry | undefined;
}

/** What an entry costs besides its text and ids: the map's slot, the entry, the typed array. */
const ENTRY_OVERHEAD_BYTES = 320;

/**
 * Tokens of stretches of text seen before, of all tokenizers together; the stretch used longest ago leaves first. A stretch
 * is found by its whole text, so what is found is exact.
 *
 *     tokenizer ──> text ──> entry
 *     newest entry ⇄ ... ⇄ oldest entry
 */
export class TokenCache {
  readonly #bytesMax: number;
  readonly #homes = new WeakMap<Tokenizer, Map<string, Entry>>();
  #newest: Entry | undefined;
  #oldest: Entry | undefined;
  #bytes = 0;

  /** @param bytesMax bound of texts, ids and bookkeeping together; above 0 */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(tokenizer: Tokenizer, text: string): Uint32Array | undefined {
    const entry = this.#homes.get(tokenizer)?.get(text);
    if (entry === undefined) return undefined;
    if (entry !== this.#newest) {
      this.#unlink(entry);
      this.#link(entry);
    }
    return entry.ids;
  }

  /** Remembers `ids`, which must not change later. A stretch that is larger than an eighth of the cache is not kept. */
  set(tokenizer: Tokenizer, text: string, ids: Uint32Array): void {
    let home = this.#homes.get(tokenizer);
    if (home === undefined) {
      home = new Map();
      this.#homes.set(tokenizer, home);
    }
    if (home.has(text)) return; // encoded twice at the same time
    const isLatin1 = !NOT_LATIN1.test(text);
    const bytes = text.length * (isLatin1 ? 1 : 2) + ids.byteLength + ENTRY_OVERHEAD_BYTES;
    if (bytes > this.#bytesMax / 8) return;
    const own = ownCopy(text, isLatin1);
    const entry: Entry = { text: own, ids, bytes, home, newer: undefined, older: undefined };
    home.set(own, entry);
    this.#link(entry);
    this.#bytes += bytes;
    while (this.#bytes > this.#bytesMax && this.#oldest !== undefined) this.#evict(this.#oldest);
  }

  #evict(entry: Entry): void {
    this.#unlink(entry);
    entry.home.delete(entry.text);
    this.#bytes -= entry.bytes;
  }

  #link(entry: Entry): void {
    entry.older = this.#newest;
    entry.newer = undefined;
    if (this.#newest !== undefined) this.#newest.newer = entry;
    this.#newest = entry;
    this.#oldest ??= entry;
  }

  #unlink(entry: Entry): void {
    if (entry.newer === undefined) this.#newest = entry.older;
    else entry.newer.older = entry.older;
    if (entry.older === undefined) this.#oldest = entry.newer;
    else entry.older.newer = entry.newer;
  }
}

const NOT_LATIN1 = /[^\0-\xff]/;

/** A slice of a string keeps the whole string alive: here a prompt of which perhaps one stretch is still known. */
function ownCopy(text: string, isLatin1: boolean): string {
  const encoding = isLatin1 ? 'latin1' : 'utf16le';
  return Buffer.from(text, encoding).toString(encoding);
}
