import type { Clock } from '../../clock/index.ts';
import { BoundedMap } from '../../records/index.ts';
import { isModelCard } from '../record-text.ts';
import type { Table } from '../table/table.ts';
import { joinCard, sumOf } from './fleet/cards.ts';
import { CARDS_MAX, type CardNames } from './fleet/view-index.ts';
import { CARDS_PK } from './schema.ts';

/** Longest time until a missing card is read again. The time doubles with each attempt. */
const PAUSE_MS_MAX = 60_000;
const FIRST_PAUSE_MS = 1000;

interface Absence {
  readonly untilMs: number;
  readonly pauseMs: number;
}

/** Names by which clients ask for the models of a fleet, by the checksums of their cards. Each card is read once. */
export class CardNamesBook {
  readonly #table: Table;
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #names = new BoundedMap<string, CardNames>(2 * CARDS_MAX);
  readonly #absent = new BoundedMap<string, Absence>(CARDS_MAX);

  constructor(table: Table, clock: Pick<Clock, 'nowMs'>) {
    this.#table = table;
    this.#clock = clock;
  }

  namesOf(sum: string): CardNames | undefined {
    return this.#names.get(sum);
  }

  /** Reads the names of unknown `sums`. Returns true if it learned any. */
  async learn(sums: Iterable<string>, signal: AbortSignal): Promise<boolean> {
    const nowMs = this.#clock.nowMs();
    const isDue = (sum: string): boolean => (this.#absent.get(sum)?.untilMs ?? nowMs) <= nowMs;
    const missing = [...new Set(sums)].filter((sum) => !this.#names.has(sum) && isDue(sum)).slice(0, CARDS_MAX);
    if (missing.length === 0) return false;
    const items = await this.#table.batchGet(
      missing.map((sum) => ({ pk: CARDS_PK, sk: sum })),
      signal,
    );
    for (const { sk, card } of items) {
      const names = namesIn(sk?.S ?? '', card?.S ?? '');
      if (names !== undefined) this.#names.set(sk?.S ?? '', names);
    }
    for (const sum of missing) {
      if (this.#names.has(sum)) this.#absent.delete(sum);
      else this.#wait(sum, nowMs);
    }
    return items.length > 0;
  }

  #wait(sum: string, nowMs: number): void {
    const pauseMs = Math.min(2 * (this.#absent.get(sum)?.pauseMs ?? FIRST_PAUSE_MS / 2), PAUSE_MS_MAX);
    this.#absent.set(sum, { untilMs: nowMs + pauseMs, pauseMs });
  }
}

/** Returns undefined for a text that is not a card, or not the card of that checksum. */
function namesIn(sum: string, shared: string): CardNames | undefined {
  if (sumOf(shared) !== sum) return undefined;
  try {
    const card = joinCard(shared, '{}');
    return isModelCard(card) ? { name: card.display_name, aliases: card.aliases } : undefined;
  } catch {
    return undefined; // not JSON
  }
}
