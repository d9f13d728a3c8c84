import type { EventEnvelope, EventListener } from './types.ts';

/**
 * Follows the sequence of each publisher: drops duplicates and reports gaps before the
 * event behind them. A publisher first heard beyond 0 is a gap, too, from 0: the subscriber came late and needs a dump; but
 * what was published before it came does not count as missed.
 */
export class SequenceWatch {
  readonly #listener: EventListener;
  readonly #nextOf = new Map<string, number>();
  #missed = 0;

  constructor(listener: EventListener) {
    this.#listener = listener;
  }

  get missed(): number {
    return this.#missed;
  }

  /** Tells the listener of `envelope`, unless it was seen before. */
  receive(envelope: EventEnvelope): void {
    const { publisherId, sequence } = envelope;
    const known = this.#nextOf.get(publisherId);
    const expected = known ?? 0;
    if (sequence < expected) return;
    this.#nextOf.set(publisherId, sequence + 1);
    if (sequence > expected) {
      if (known !== undefined) this.#missed += sequence - expected;
      this.#listener.gap?.(publisherId, expected, sequence);
    }
    this.#listener.event(envelope);
  }

  /** Forgets a publisher that is no longer followed, so that the map is bounded by those that are. */
  forget(publisherId: string): void {
    this.#nextOf.delete(publisherId);
  }
}
