/**
 * A map of a bounded number of entries: the one that was set or used longest ago leaves for a new one. What is iterated begins
 * with it.
 *
 * @example
 * const cards = new BoundedMap<string, Card>(1024);
 * cards.set(sum, card);
 * cards.use(sum); // now it is the last to leave
 */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #sizeMax: number;
  readonly #onDropped: ((value: Value, key: Key) => void) | undefined;

  /** @param onDropped is told what has left for another entry: not what was deleted or replaced */
  constructor(sizeMax: number, onDropped?: (value: Value, key: Key) => void) {
    super();
    this.#sizeMax = sizeMax;
    this.#onDropped = onDropped;
  }

  /** The entry is the latest now, also where there was one of its key. */
  override set(key: Key, value: Value): this {
    this.delete(key);
    super.set(key, value);
    while (this.size > this.#sizeMax) this.dropOldest();
    return this;
  }

  /** The value, whose entry is the latest now. `get` leaves it where it is. */
  use(key: Key): Value | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    this.delete(key);
    super.set(key, value);
    return value;
  }

  /** Pushes out the entry that was set or used longest ago, for maps that are bounded by more than their number. */
  dropOldest(): void {
    for (const [key, value] of this) {
      this.delete(key);
      this.#onDropped?.(value, key);
      return;
    }
  }
}
