import type { KvEvent } from '../../engines/index.ts';
import type { EventPublisher } from '../../planes/event/index.ts';
import { u64OfHex } from '../../records/index.ts';
import { createBlockIndex } from '../../router/block-index/index.ts';
import { EVENTS_PER_MESSAGE_MAX } from '../../router/feed/index.ts';
import { RankTable } from '../../router/scheduler/index.ts';
import { toRouterEvent } from './event-records.ts';
import { KvEventFilter } from './kv-event-filter.ts';
import { RankJournal } from './rank-journal.ts';

export interface KvEventPublisherOptions {
  readonly publisher: EventPublisher;
  /** Hex. */
  readonly instanceId: string;
  readonly dataParallelSize: number;
}

/**
 * Publishes the cache changes of one engine: one message an engine step, or several of a step of very many; event ids counted per rank. What is published is
 * in the rank's journal first, so that a router which missed it can ask.
 */
export class KvEventPublisher {
  readonly #publisher: EventPublisher;
  readonly #workerId: string;
  readonly #filter = new KvEventFilter();
  readonly #journals: readonly RankJournal[];

  constructor({ publisher, instanceId, dataParallelSize }: KvEventPublisherOptions) {
    this.#publisher = publisher;
    this.#workerId = u64OfHex(instanceId).toString();
    const ranks = new RankTable();
    const index = createBlockIndex({ ranks });
    const { publisherId } = publisher;
    this.#journals = Array.from({ length: dataParallelSize }, (_, dpRank) => {
      const rank = ranks.intern(instanceId, dpRank);
      return new RankJournal({ dpRank, index, rank, workerId: this.#workerId, publisherId });
    });
  }

  /** One for each rank. */
  get journals(): readonly RankJournal[] {
    return this.#journals;
  }

  publish(events: readonly KvEvent[]): void {
    const records = this.#filter.apply(events).flatMap((event) => {
      const eventId = this.#journals[event.dpRank]?.append(event);
      if (eventId === undefined) return []; // a rank that the engine did not speak of
      return [toRouterEvent(this.#workerId, eventId, event)];
    });
    for (let from = 0; from < records.length; from += EVENTS_PER_MESSAGE_MAX) {
      this.#publisher.publish(records.slice(from, from + EVENTS_PER_MESSAGE_MAX));
    }
  }
}
