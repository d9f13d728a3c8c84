import type { RankEvent } from './decode-events.ts';

/** A live event and who published it. */
export interface LiveEvent {
  readonly publisherId: string;
  readonly event: RankEvent;
}

/** Live events of one rank that wait for a recovery to end. Bounded: the one that waits longest is dropped. */
export class EventBuffer {
  readonly #events = new Map<number, LiveEvent>();
  readonly #eventsMax: number;

  /** @param eventsMax events that wait for the one that is missing. @default 1024 */
  constructor(eventsMax = 1024) {
    this.#eventsMax = eventsMax;
  }

  get isEmpty(): boolean {
    return this.#events.size === 0;
  }

  /** Returns how many events were dropped for it. */
  add(live: LiveEvent): number {
    this.#events.set(live.event.eventId, live);
    if (this.#events.size <= this.#eventsMax) return 0;
    const [oldest] = this.#events.keys();
    if (oldest !== undefined) this.#events.delete(oldest);
    return 1;
  }

  /** Takes the event out. */
  take(eventId: number): LiveEvent | undefined {
    const live = this.#events.get(eventId);
    this.#events.delete(eventId);
    return live;
  }

  /** Drops what comes before or at `eventId`, and what another publisher sent. */
  keepAfter(eventId: number, publisherId: string | undefined): void {
    for (const [id, live] of this.#events) {
      if (id <= eventId || (publisherId !== undefined && live.publisherId !== publisherId)) this.#events.delete(id);
    }
  }

  clear(): void {
    this.#events.clear();
  }
}
