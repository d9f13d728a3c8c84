import type { Clock } from '../../clock/index.ts';
import type { Decision } from '../scheduler/types.ts';
import type { Prompt } from './prompt.ts';

/** A choice that may be booked later. */
export interface Selection {
  readonly model: string;
  readonly group: string;
  readonly workerId: string;
  readonly dpRank: number;
  readonly uncachedTokens: Decision['uncachedTokens'];
  readonly prompt: Prompt;
  readonly expectedOutputTokens: number | undefined;
  /** Session that is bound to the worker once the choice is booked. */
  readonly sessionId: string | undefined;
}

const LIFE_MS = 120_000;
const ENTRIES_MAX = 4096;
const BYTES_MAX = 256 * 1024 * 1024;
/** Of an entry beside its hashes. */
const ENTRY_BYTES = 512;

/** Choices by their ids, for a while; the oldest give way. */
export class SelectionsCache {
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #kept = new Map<
    string,
    { readonly selection: Selection; readonly untilMs: number; readonly bytes: number }
  >();
  #bytes = 0;

  constructor(clock: Pick<Clock, 'nowMs'>) {
    this.#clock = clock;
  }

  /** Takes the place of an earlier one of that id. */
  put(id: string, selection: Selection): void {
    this.take(id);
    const { local, sequence } = selection.prompt.hashes;
    const bytes = ENTRY_BYTES + local.byteLength + sequence.byteLength;
    this.#kept.set(id, { selection, bytes, untilMs: this.#clock.nowMs() + LIFE_MS });
    this.#bytes += bytes;
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= ENTRIES_MAX && this.#bytes <= BYTES_MAX) break;
      this.take(oldest);
    }
  }

  /** Gives a choice away: each can be had once. Undefined when it is too old or not known. */
  take(id: string): Selection | undefined {
    const kept = this.#kept.get(id);
    if (kept === undefined) return undefined;
    this.#kept.delete(id);
    this.#bytes -= kept.bytes;
    return kept.untilMs > this.#clock.nowMs() ? kept.selection : undefined;
  }
}
