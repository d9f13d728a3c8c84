interface ShownRow {
  /** Sources of the row. */
  readonly sources: readonly unknown[];
  readonly text: string;
}

/** Rows that all viewers have, by key, as JSON text. It says which rows of a new sample are other than before. */
export class ShownRows {
  #rows = new Map<string, ShownRow>();

  /** Texts of all rows. */
  get texts(): readonly string[] {
    return [...this.#rows.values()].map(({ text }) => text);
  }

  /**
   * Takes a new sample.
   * @param sample the sources of each row by its key. A row whose sources are the same objects is not made again.
   * @param make returns a row from its sources
   * @returns the texts of rows that are new or have changed, and the keys of those that have gone
   */
  show<Sources extends readonly unknown[]>(
    sample: ReadonlyMap<string, Readonly<Sources>>,
    make: (...sources: Sources) => object,
  ): { readonly changed: readonly string[]; readonly gone: readonly string[] } {
    const rows = new Map<string, ShownRow>();
    const changed: string[] = [];
    for (const [key, sources] of sample) {
      const before = this.#rows.get(key);
      if (before !== undefined && isSame(before.sources, sources)) {
        rows.set(key, before);
        continue;
      }
      const text = JSON.stringify(make(...sources));
      rows.set(key, { sources, text });
      if (text !== before?.text) changed.push(text);
    }
    const gone = [...this.#rows.keys()].filter((key) => !rows.has(key));
    this.#rows = rows;
    return { changed, gone };
  }
}

function isSame(some: readonly unknown[], others: readonly unknown[]): boolean {
  return some.every((each, at) => each === others[at]);
}
