import type { WeighedRequest } from '../chooser.ts';
import type { FoundOverlaps } from '../prefix-index.ts';
import type { SchedulingOutcome } from '../types.ts';

/** A request that waits for a worker. */
export interface Waiting {
  readonly weighed: WeighedRequest;
  readonly outcome: SchedulingOutcome;
  readonly arrivedMs: number;
  /** Counts arrivals; of two as urgent, the earlier goes first. */
  readonly order: number;
  /** Larger goes first; see `queueKey`. */
  key: number;
  /** Most of its prompt that any eligible worker had cached on arrival. */
  readonly cachedTokens: number;
  /** The rest of the prompt, at least one; what it costs its class. */
  readonly costTokens: number;
  /** Position of its class. */
  readonly classAt: number;
  /** What the index said when it was last asked. */
  found: FoundOverlaps;
  foundMs: number;
  /** Prompt tokens left to compute at the best worker, by `found`. */
  uncachedTokens: number;
  /** Name of the line that it stands in; the queue's. */
  lane: string;
  /** Position in its heap; -1 once it left. */
  heapAt: number;
}

/** Waiting requests, the most urgent on top: a binary heap in which any entry can be taken out. */
export class WaitingHeap implements Iterable<Waiting> {
  readonly #entries: Waiting[] = [];

  get size(): number {
    return this.#entries.length;
  }

  get top(): Waiting | undefined {
    return this.#entries[0];
  }

  [Symbol.iterator](): Iterator<Waiting> {
    return this.#entries[Symbol.iterator]();
  }

  add(waiting: Waiting): void {
    this.#entries.push(waiting);
    this.#rise(waiting, this.#entries.length - 1);
  }

  /** False when it is not here any more. */
  remove(waiting: Waiting): boolean {
    const at = waiting.heapAt;
    if (at === -1) return false;
    const last = this.#entries.pop() as Waiting;
    if (last !== waiting) {
      this.#rise(last, at);
      this.#sink(last, last.heapAt);
    }
    waiting.heapAt = -1;
    return true;
  }

  /** Puts an entry whose key has changed in its place. */
  moved(waiting: Waiting): void {
    this.#rise(waiting, waiting.heapAt);
    this.#sink(waiting, waiting.heapAt);
  }

  /** Puts everything in order again after keys have changed. */
  reorder(): void {
    for (let at = (this.#entries.length >> 1) - 1; at >= 0; at--) this.#sink(this.#entries[at] as Waiting, at);
  }

  /** Entries that go before `waiting`. Costs as much as there are entries. */
  before(waiting: Waiting): number {
    let count = 0;
    for (const entry of this.#entries) if (entry !== waiting && precedes(entry, waiting)) count++;
    return count;
  }

  #rise(waiting: Waiting, from: number): void {
    let at = from;
    while (at > 0) {
      const parentAt = (at - 1) >> 1;
      const parent = this.#entries[parentAt] as Waiting;
      if (!precedes(waiting, parent)) break;
      this.#put(parent, at);
      at = parentAt;
    }
    this.#put(waiting, at);
  }

  #sink(waiting: Waiting, from: number): void {
    let at = from;
    for (;;) {
      const left = 2 * at + 1;
      if (left >= this.#entries.length) break;
      const right = left + 1;
      const isRight =
        right < this.#entries.length && precedes(this.#entries[right] as Waiting, this.#entries[left] as Waiting);
      const childAt = isRight ? right : left;
      const child = this.#entries[childAt] as Waiting;
      if (!precedes(child, waiting)) break;
      this.#put(child, at);
      at = childAt;
    }
    this.#put(waiting, at);
  }

  #put(waiting: Waiting, at: number): void {
    this.#entries[at] = waiting;
    waiting.heapAt = at;
  }
}

/** The tier always wins; then the key; then who came first. */
export function precedes(a: Waiting, b: Waiting): boolean {
  const tierA = a.weighed.request.strictPriority ?? 0;
  const tierB = b.weighed.request.strictPriority ?? 0;
  if (tierA !== tierB) return tierA > tierB;
  return a.key === b.key ? a.order < b.order : a.key > b.key;
}
