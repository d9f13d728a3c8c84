import { isModelCard } from '../../record-text.ts';
import type { ModelCard } from '../../records.ts';
import { joinCard, sumOf } from './card-split.ts';

/** Cards of one process, each with what some workers have of their own. */
const SHARED_MAX = 1024;
const JOINED_MAX = 4096;

/** Model cards by checksum, read once. Workers whose cards are equal get the same object. */
export class CardShelf {
  readonly #shared = new Map<string, string>();
  readonly #joined = new Map<string, ModelCard | undefined>(); // by checksum and own part

  has(sum: string): boolean {
    return this.#shared.has(sum);
  }

  /** Ignored when the text is not what the sum says. */
  put(sum: string, shared: string): void {
    if (sumOf(shared) === sum) keep(this.#shared, sum, shared, SHARED_MAX);
  }

  /** The card of that sum with a worker's own part; undefined while it is not known, or when it is no card. */
  card(sum: string, own: string): ModelCard | undefined {
    const name = `${sum} ${own}`;
    if (this.#joined.has(name)) return this.#joined.get(name);
    const shared = this.#shared.get(sum);
    if (shared === undefined) return undefined;
    const card = join(shared, own);
    keep(this.#joined, name, card, JOINED_MAX);
    return card;
  }
}

function join(shared: string, own: string): ModelCard | undefined {
  try {
    const card = joinCard(shared, own);
    return isModelCard(card) ? card : undefined;
  } catch {
    return undefined; // no JSON
  }
}

function keep<V>(map: Map<string, V>, key: string, value: V, sizeMax: number): void {
  map.delete(key);
  map.set(key, value);
  for (const oldest of map.keys()) {
    if (map.size <= sizeMax) return;
    map.delete(oldest);
  }
}
