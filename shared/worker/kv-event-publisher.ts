import type { KvEvent } from '../engines/index.ts';
import type { EventPublisher } from '../planes/event/index.ts';
import { toRouterEvent } from './event-records.ts';
import { KvEventFilter } from './kv-event-filter.ts';

/** Publishes the cache changes of one engine: one message an engine step, event ids counted per rank. */
export class KvEventPublisher {
  readonly #publisher: EventPublisher;
  readonly #workerId: string;
  readonly #filter = new KvEventFilter();
  readonly #lastIdOfRank = new Map<number, number>();

  /** `workerId` in decimal. */
  constructor(publisher: EventPublisher, workerId: string) {
    this.#publisher = publisher;
    this.#workerId = workerId;
  }

  publish(events: readonly KvEvent[]): void {
    const records = this.#filter
      .apply(events)
      .map((event) => toRouterEvent(this.#workerId, this.#nextId(event.dpRank), event));
    if (records.length > 0) this.#publisher.publish(records);
  }

  #nextId(dpRank: number): number {
    const id = (this.#lastIdOfRank.get(dpRank) ?? 0) + 1;
    this.#lastIdOfRank.set(dpRank, id);
    return id;
  }
}
