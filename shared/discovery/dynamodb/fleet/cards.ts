import { createHash } from 'node:crypto';
import { BoundedMap } from '../../../records/index.ts';
import { isModelCard } from '../../record-text.ts';
import type { ModelCard, RuntimeConfig } from '../../records.ts';

/**
 * Fields that may differ between the workers of one model. Each worker's record contains them; the other fields are
 * stored once.
 */
const OWN_FIELDS = [
  'total_kv_blocks',
  'max_num_seqs',
  'max_num_batched_tokens',
  'data_parallel_start_rank',
  'data_parallel_size',
  'taints',
  'topology_domains',
  'stable_routing_id',
  'disaggregated_endpoint',
  'runtime_data',
] as const satisfies readonly (keyof RuntimeConfig)[];

const SUM_LENGTH = 32;

/** A card as it is stored. */
export interface SplitCard {
  /** Checksum of `shared`, under which the card is stored. */
  readonly sum: string;
  /** The part that the cards of many workers share, as JSON. */
  readonly shared: string;
  /** The worker's own part of the runtime figures, as JSON. */
  readonly own: string;
}

export function splitCard(card: ModelCard): SplitCard {
  const own: Record<string, unknown> = {};
  const runtime: Record<string, unknown> = { ...card.runtime_config };
  for (const field of OWN_FIELDS) {
    if (runtime[field] !== undefined) own[field] = runtime[field];
    delete runtime[field];
  }
  const shared = JSON.stringify({ ...card, runtime_config: runtime });
  return { sum: sumOf(shared), shared, own: JSON.stringify(own) };
}

/** Reverses `splitCard` without checking the result. Throws `SyntaxError` for a text that is not JSON. */
export function joinCard(shared: string, own: string): unknown {
  const card = JSON.parse(shared) as { readonly runtime_config?: object };
  return { ...card, runtime_config: { ...card.runtime_config, ...JSON.parse(own) } };
}

/** Returns the checksum under which a card is stored. */
export function sumOf(shared: string): string {
  return createHash('sha256').update(shared).digest('hex').slice(0, SUM_LENGTH);
}

/** Most cards in the memory of a process, counted with the own parts of its workers. */
const SHARED_MAX = 1024;
const JOINED_MAX = 4096;

/** Model cards by checksum, each read once. Workers whose cards are equal get the same object. */
export class CardShelf {
  readonly #shared = new BoundedMap<string, string>(SHARED_MAX);
  readonly #joined = new BoundedMap<string, ModelCard | undefined>(JOINED_MAX); // by checksum and own part

  has(sum: string): boolean {
    return this.#shared.has(sum);
  }

  /** Adds a card. Ignores a text that does not match the checksum. */
  put(sum: string, shared: string): void {
    if (sumOf(shared) === sum) this.#shared.set(sum, shared);
  }

  /**
   * Returns the card of that checksum with a worker's own part. Returns undefined if it is not known yet, or is not a
   * card.
   */
  card(sum: string, own: string): ModelCard | undefined {
    const name = `${sum} ${own}`;
    if (this.#joined.has(name)) return this.#joined.get(name);
    const shared = this.#shared.get(sum);
    if (shared === undefined) return undefined;
    const card = join(shared, own);
    this.#joined.set(name, card);
    return card;
  }
}

function join(shared: string, own: string): ModelCard | undefined {
  try {
    const card = joinCard(shared, own);
    return isModelCard(card) ? card : undefined;
  } catch {
    return undefined; // not JSON
  }
}
