import type { KvEvent } from '../../engines/index.ts';
import type { BlockIndex } from '../../router/block-index/index.ts';
import type { RecoveryRequest, RecoveryResponse, RouterEventRecord } from '../../router/feed/index.ts';
import { type EventForm, toRouterEvent } from './event-records.ts';
import { EventRing } from './event-ring.ts';

export interface RankJournalOptions {
  readonly dpRank: number;
  /** Of the worker alone; shared by its ranks. */
  readonly index: BlockIndex;
  /** Number of the rank in the index. */
  readonly rank: number;
  /** In decimal. */
  readonly workerId: string;
  /** Hex. */
  readonly publisherId: string;
}

/** Blocks in one part of an answer: 256 KiB. */
const PART_BLOCKS_MAX = 16_384;

/**
 * What one rank has published: every event numbered from 1, the last 1,024 of them, and an index of the blocks that they
 * amount to. Answers routers that have missed something (router.md, section 4.6).
 */
export class RankJournal {
  readonly #options: RankJournalOptions;
  readonly #ring = new EventRing();

  constructor(options: RankJournalOptions) {
    this.#options = options;
  }

  /** 0 = nothing was published yet. */
  get lastEventId(): number {
    return this.#ring.newest;
  }

  /** Numbers an event; call it for each that is published, before it is. */
  append(event: KvEvent): number {
    const { index, rank } = this.#options;
    // What the index refuses (a parent that is gone), a router's refuses as well: both stay equal.
    if (event.kind === 'cleared') index.cleared(rank);
    else if (event.kind === 'removed') index.removed(rank, event.tier ?? 'device', event.blockHashes);
    else index.stored(rank, event.tier ?? 'device', event.parentHash, event.blockHashes, event.tokensHashes);
    return this.#ring.add(event);
  }

  /** Whether the answer holds every block of the rank, which costs more than a few events. */
  needsDump({ start_event_id: start, end_event_id: end }: RecoveryRequest): boolean {
    if (start !== undefined && end !== undefined && end < start) return false;
    const { oldest, newest } = this.#ring;
    return start === undefined || oldest > newest || start < oldest;
  }

  /** The parts of an answer, all as of the first call of `next`. */
  *answer(request: RecoveryRequest): Generator<RecoveryResponse, void, void> {
    const { start_event_id: start, end_event_id: end } = request;
    const publisher_id = this.#options.publisherId;
    const { newest } = this.#ring;
    if (this.needsDump(request)) {
      for (const events of inParts(this.#dump(), (event) => event)) {
        yield { TreeDump: { events: this.#records(events, request), last_event_id: newest }, publisher_id };
      }
    } else if (start === undefined || (end !== undefined && end < start)) {
      yield { InvalidRange: { start_id: start ?? 0, end_id: end ?? 0 }, publisher_id };
    } else if (start > newest) {
      const requested_end = end ?? null;
      yield { TooNew: { requested_start: start, requested_end, newest_available: newest }, publisher_id };
    } else {
      const last = Math.min(end ?? newest, newest);
      const kept = Array.from({ length: last - start + 1 }, (_, at) => ({
        id: start + at,
        event: this.#ring.at(start + at),
      }));
      for (const part of inParts(kept, ({ event }) => event)) {
        const events = part.map(({ id, event }) => this.#record(id, event, request));
        yield { Events: { events, last_event_id: last }, publisher_id };
      }
    }
  }

  /** Stores that build up what the rank holds; none longer than a part. */
  #dump(): KvEvent[] {
    const { index, rank, dpRank } = this.#options;
    const events: KvEvent[] = [];
    for (const run of index.dump(rank)) {
      const { blockHashes, tokensHashes } = run;
      for (let start = 0; start < blockHashes.length; start += 2 * PART_BLOCKS_MAX) {
        const end = Math.min(start + 2 * PART_BLOCKS_MAX, blockHashes.length);
        events.push({
          kind: 'stored',
          dpRank,
          parentHash: start === 0 ? run.parent : [blockHashes[start - 2]!, blockHashes[start - 1]!],
          blockHashes: blockHashes.subarray(start, end),
          tokensHashes: tokensHashes.subarray(start, end),
        });
      }
    }
    return events;
  }

  /** Ids of a dump are its own, from 0. */
  #records(events: readonly KvEvent[], request: RecoveryRequest): RouterEventRecord[] {
    return events.map((event, at) => this.#record(at, event, request));
  }

  #record(eventId: number, event: KvEvent, { compact = false }: RecoveryRequest): RouterEventRecord {
    const form: EventForm = compact ? 'compact' : 'plain';
    return toRouterEvent(this.#options.workerId, eventId, event, form);
  }
}

/** `items` in groups of at most a part's blocks, at least one group; a single larger item is a group of its own. */
function* inParts<T>(items: readonly T[], eventOf: (item: T) => KvEvent): Generator<readonly T[], void, void> {
  let from = 0;
  let blocks = 0;
  for (const [at, item] of items.entries()) {
    const event = eventOf(item);
    blocks += event.kind === 'cleared' ? 0 : event.blockHashes.length / 2;
    if (blocks < PART_BLOCKS_MAX) continue;
    yield items.slice(from, at + 1);
    from = at + 1;
    blocks = 0;
  }
  if (from < items.length || from === 0) yield items.slice(from);
}
