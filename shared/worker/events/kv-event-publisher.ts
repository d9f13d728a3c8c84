import type { KvEvent } from '../../engines/index.ts';
import type { EventPublisher } from '../../planes/event/index.ts';
import { u64OfHex } from '../../records/index.ts';
import { type BlockIndex, createBlockIndex } from '../../router/block-index/index.ts';
import { EVENTS_PER_MESSAGE_MAX } from '../../router/feed/index.ts';
import { defaultKvRouterConfig, Overlaps, RankTable } from '../../router/scheduler/index.ts';
import { toRouterEvent } from './event-records.ts';
import { KvEventFilter } from './kv-event-filter.ts';
import { RankJournal } from './rank-journal.ts';

export interface KvEventPublisherOptions {
  readonly publisher: EventPublisher;
  /** Hex. */
  readonly instanceId: string;
  readonly dataParallelSize: number;
}

const NO_WORDS = new Uint32Array(0);

/**
 * Publishes the cache changes of one engine: one message an engine step, or several of a step of very many; event ids counted per rank. What is published is
 * in the rank's journal first, so that a router which missed it can ask.
 */
export class KvEventPublisher {
  readonly #publisher: EventPublisher;
  readonly #workerId: string;
  readonly #filter = new KvEventFilter();
  readonly #journals: readonly RankJournal[];
  readonly #index: BlockIndex;
  /** Numbers of the ranks in it. */
  readonly #ranks: readonly number[];
  readonly #overlaps = new Overlaps(0);

  constructor({ publisher, instanceId, dataParallelSize }: KvEventPublisherOptions) {
    this.#publisher = publisher;
    this.#workerId = u64OfHex(instanceId).toString();
    const ranks = new RankTable();
    const index = createBlockIndex({ ranks });
    this.#index = index;
    const { publisherId } = publisher;
    this.#ranks = Array.from({ length: dataParallelSize }, (_, dpRank) => ranks.intern(instanceId, dpRank));
    this.#journals = this.#ranks.map((rank, dpRank) => {
      return new RankJournal({ dpRank, index, rank, workerId: this.#workerId, publisherId });
    });
  }

  /** One for each rank. */
  get journals(): readonly RankJournal[] {
    return this.#journals;
  }

  /** Leading blocks of a prompt that each rank holds; those below the device count with their weight in a router's cost. */
  heldBlocks(sequence: Uint32Array): readonly number[] {
    this.#index.match({ local: NO_WORDS, sequence }, this.#overlaps);
    const { device, host, disk } = this.#overlaps;
    const { hostCacheHitWeight, diskCacheHitWeight } = defaultKvRouterConfig;
    return this.#ranks.map(
      (rank) => (device[rank] ?? 0) + hostCacheHitWeight * (host[rank] ?? 0) + diskCacheHitWeight * (disk[rank] ?? 0),
    );
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
