/** A set of 64-bit hashes for the length of one event. `clear` costs nothing; the room of the largest event is kept. */
export class U64Set {
  #slots = new Int32Array(3 * 64);
  #mask = 63;
  #size = 0;
  #round = 1;

  clear(): void {
    this.#size = 0;
    this.#round++;
  }

  /** @returns whether it is new */
  add(low: number, high: number): boolean {
    if (2 * (this.#size + 1) > this.#mask) this.#grow();
    const at = this.#find(low, high);
    if (this.#slots[at] === this.#round) return false;
    this.#slots[at] = this.#round;
    this.#slots[at + 1] = low;
    this.#slots[at + 2] = high;
    this.#size++;
    return true;
  }

  has(low: number, high: number): boolean {
    return this.#slots[this.#find(low, high)] === this.#round;
  }

  #find(low: number, high: number): number {
    let slot = Math.imul(low ^ Math.imul(high, 0x85ebca77), 0x9e3779b1) >>> 8;
    for (; ; slot++) {
      const at = 3 * (slot & this.#mask);
      if (this.#slots[at] !== this.#round) return at;
      if (this.#slots[at + 1] === low && this.#slots[at + 2] === high) return at;
    }
  }

  #grow(): void {
    const old = this.#slots;
    this.#mask = 2 * this.#mask + 1;
    this.#slots = new Int32Array(3 * (this.#mask + 1));
    this.#size = 0;
    for (let at = 0; at < old.length; at += 3) {
      if (old[at] === this.#round) this.add(old[at + 1] as number, old[at + 2] as number);
    }
  }
}
