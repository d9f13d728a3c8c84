import { BlockIndex, Overlaps, RankTable } from '../../block-index/index.ts';
import type { KvEvent } from '../../engines/index.ts';
import { u64OfHex } from '../../records/index.ts';
import { defaultKvRouterConfig } from '../../scheduler/index.ts';
import { EVENTS_PER_MESSAGE_MAX } from '../../worker-events/index.ts';
import type { Publishing } from './dynamo-events.ts';
import { toRouterEvent } from './event-records.ts';
import { RankJournal } from './rank-journal.ts';

const SIZE_INITIAL = 1024;

type Stored = Extract<KvEvent, { kind: 'stored' }>;
type Removed = Extract<KvEvent, { kind: 'removed' }>;

/**
 * Converts the events of an engine that may hold several copies of a block into events without copies. It passes on
 * only the first store and the last removal of a block. If a run of stores has copies in the middle, it is cut there.
 */
export class KvEventFilter {
  readonly #copiesOfRank = new Map<string, BlockCopies>();
  readonly #holdsOnce: boolean;

  /** @param holdsOnce whether storing a block again adds no copy, so that one removal ends it */
  constructor(holdsOnce = false) {
    this.#holdsOnce = holdsOnce;
  }

  /** Returns the events to publish, in order. Returns the same array if it drops nothing. */
  apply(events: readonly KvEvent[]): readonly KvEvent[] {
    const kept: KvEvent[] = [];
    for (const event of events) {
      if (event.kind === 'stored') this.#store(event, kept);
      else if (event.kind === 'removed') this.#remove(event, kept);
      else {
        this.#copiesOfRank.clear(); // the engine forgets all ranks at once
        kept.push(event);
      }
    }
    return kept;
  }

  #store(event: Stored, kept: KvEvent[]): void {
    const { blockHashes: hashes } = event;
    const copies = this.#copiesOf(event);
    let start = 0; // first block of the run that was not passed on yet
    for (let at = 0; at < hashes.length; at += 2) {
      if (copies.add(hashes[at]!, hashes[at + 1]!, this.#holdsOnce ? 1 : undefined)) continue;
      if (at > start) kept.push(cutStored(event, start, at));
      start = at + 2;
    }
    if (start === 0) kept.push(event);
    else if (start < hashes.length) kept.push(cutStored(event, start, hashes.length));
  }

  #remove(event: Removed, kept: KvEvent[]): void {
    const { blockHashes: hashes } = event;
    const copies = this.#copiesOf(event);
    const last = new Uint32Array(hashes.length);
    let count = 0;
    for (let at = 0; at < hashes.length; at += 2) {
      if (!copies.remove(hashes[at]!, hashes[at + 1]!)) continue;
      last[count++] = hashes[at]!;
      last[count++] = hashes[at + 1]!;
    }
    if (count === hashes.length) kept.push(event);
    else if (count > 0) kept.push({ ...event, blockHashes: last.slice(0, count) });
  }

  /** Returns the copies of a tier of a rank; each tier has its own. */
  #copiesOf({ dpRank, tier = 'device' }: Stored | Removed): BlockCopies {
    const key = `${dpRank}/${tier}`;
    let copies = this.#copiesOfRank.get(key);
    if (copies === undefined) {
      copies = new BlockCopies();
      this.#copiesOfRank.set(key, copies);
    }
    return copies;
  }
}

/** Returns the event for the blocks at words `start .. end` of a store. Their parent is the block before them. */
function cutStored(event: Stored, start: number, end: number): Stored {
  return {
    ...event,
    parentHash: start === 0 ? event.parentHash : [event.blockHashes[start - 2]!, event.blockHashes[start - 1]!],
    blockHashes: event.blockHashes.slice(start, end),
    tokensHashes: event.tokensHashes.slice(start, end),
  };
}

/**
 * Counts the copies of each block that an engine holds under one hash. Engines store a block again under the hash that
 * it already has, and remove each copy separately. The table uses open addressing on the u32 halves; the engine's cache
 * bounds it.
 */
export class BlockCopies {
  #low = new Uint32Array(SIZE_INITIAL);
  #high = new Uint32Array(SIZE_INITIAL);
  #copies = new Uint32Array(SIZE_INITIAL); // 0 = empty
  #used = 0;

  /** Counts one more copy, up to `copiesMax`. Returns whether it is the first. */
  add(low: number, high: number, copiesMax = Number.POSITIVE_INFINITY): boolean {
    if (this.#used * 2 >= this.#copies.length) this.#grow();
    const at = this.#slotOf(low, high);
    if (this.#copies[at]! > 0) {
      if (this.#copies[at]! < copiesMax) this.#copies[at]!++;
      return false;
    }
    this.#low[at] = low;
    this.#high[at] = high;
    this.#copies[at] = 1;
    this.#used++;
    return true;
  }

  /** Counts one copy less. Returns whether it was the last; also true for a block that was never seen. */
  remove(low: number, high: number): boolean {
    const at = this.#slotOf(low, high);
    if (this.#copies[at]! > 1) {
      this.#copies[at]!--;
      return false;
    }
    if (this.#copies[at] === 1) this.#erase(at);
    return true;
  }

  /** Returns the slot of the block, or the empty slot where it would go. */
  #slotOf(low: number, high: number): number {
    const mask = this.#copies.length - 1;
    let at = low & mask;
    while (this.#copies[at]! > 0 && (this.#low[at] !== low || this.#high[at] !== high)) at = (at + 1) & mask;
    return at;
  }

  /** Empties a slot and moves later entries of its run back, so that no tombstones are needed. */
  #erase(slot: number): void {
    const mask = this.#copies.length - 1;
    let hole = slot;
    for (let at = (hole + 1) & mask; this.#copies[at]! > 0; at = (at + 1) & mask) {
      const home = this.#low[at]! & mask;
      if (((at - home) & mask) < ((at - hole) & mask)) continue; // its home lies behind the hole
      this.#move(at, hole);
      hole = at;
    }
    this.#copies[hole] = 0;
    this.#used--;
  }

  #move(from: number, to: number): void {
    this.#low[to] = this.#low[from]!;
    this.#high[to] = this.#high[from]!;
    this.#copies[to] = this.#copies[from]!;
  }

  #grow(): void {
    const [low, high, copies] = [this.#low, this.#high, this.#copies];
    this.#low = new Uint32Array(low.length * 2);
    this.#high = new Uint32Array(low.length * 2);
    this.#copies = new Uint32Array(low.length * 2);
    for (let old = 0; old < low.length; old++) {
      if (copies[old] === 0) continue;
      const at = this.#slotOf(low[old]!, high[old]!);
      this.#low[at] = low[old]!;
      this.#high[at] = high[old]!;
      this.#copies[at] = copies[old]!;
    }
  }
}

interface KvEventPublisherOptions {
  readonly publisher: Publishing;
  /** Id of the worker, in hex. */
  readonly instanceId: string;
  readonly dataParallelSize: number;
  /** The filter's `holdsOnce`. */
  readonly holdsOnce?: boolean | undefined;
}

const NO_WORDS = new Uint32Array(0);

/**
 * Publishes the cache changes of one engine: one message for each engine step, or several for a step with very many.
 * Each rank counts its own event ids. Each event enters the rank's journal before it is published, so that a router
 * that missed it can ask.
 */
export class KvEventPublisher {
  readonly #publisher: Publishing;
  readonly #workerId: string;
  readonly #filter: KvEventFilter;
  readonly #journals: readonly RankJournal[];
  readonly #index: BlockIndex;
  /** Numbers of the ranks in the index. */
  readonly #ranks: readonly number[];
  readonly #overlaps = new Overlaps(0);

  constructor({ publisher, instanceId, dataParallelSize, holdsOnce }: KvEventPublisherOptions) {
    this.#publisher = publisher;
    this.#filter = new KvEventFilter(holdsOnce);
    this.#workerId = u64OfHex(instanceId).toString();
    const ranks = new RankTable();
    const index = new BlockIndex({ ranks });
    this.#index = index;
    const { publisherId } = publisher;
    this.#ranks = Array.from({ length: dataParallelSize }, (_, dpRank) => ranks.intern(instanceId, dpRank));
    this.#journals = this.#ranks.map((rank, dpRank) => {
      return new RankJournal({ dpRank, index, rank, workerId: this.#workerId, publisherId });
    });
  }

  /** Journals, one for each rank. */
  get journals(): readonly RankJournal[] {
    return this.#journals;
  }

  /**
   * Returns the leading blocks of a prompt that each rank holds. Blocks below the device count with their weight in a
   * router's cost.
   */
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
      if (eventId === undefined) return []; // a rank that the engine did not announce
      return [toRouterEvent(this.#workerId, eventId, event)];
    });
    for (let from = 0; from < records.length; from += EVENTS_PER_MESSAGE_MAX) {
      this.#publisher.publish(records.slice(from, from + EVENTS_PER_MESSAGE_MAX));
    }
  }
}
