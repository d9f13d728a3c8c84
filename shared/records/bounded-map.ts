/**
 * A map with a limited number of entries. For a new entry, the one that was set or used longest ago leaves. Iteration
 * begins with that one.
 *
 * @example
 * const cards = new BoundedMap<string, Card>(1024);
 * cards.set(sum, card);
 * cards.use(sum); // now it is the last to leave
 */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #sizeMax: number;
  readonly #onDropped: ((value: Value, key: Key) => void) | undefined;

  /**
   * @param onDropped called with each entry that leaves for another one; not with entries that were deleted or replaced
   */
  constructor(sizeMax: number, onDropped?: (value: Value, key: Key) => void) {
    super();
    this.#sizeMax = sizeMax;
    this.#onDropped = onDropped;
  }

  /** Sets an entry and makes it the latest, also if its key was there before. */
  override set(key: Key, value: Value): this {
    this.delete(key);
    super.set(key, value);
    while (this.size > this.#sizeMax) this.dropOldest();
    return this;
  }

  /** Returns a value and makes its entry the latest. `get` does not change the order. */
  use(key: Key): Value | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    this.delete(key);
    super.set(key, value);
    return value;
  }

  /**
   * Removes the entry that was set or used longest ago, for maps that are limited by more than their number of entries.
   */
  dropOldest(): void {
    for (const [key, value] of this) {
      this.delete(key);
      this.#onDropped?.(value, key);
      return;
    }
  }
}
