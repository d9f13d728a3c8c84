import type { BlockIndex, StoredRun } from '../../block-index/index.ts';
import type { KvEvent } from '../../engines/index.ts';
import { workerError } from '../../errors/index.ts';
import type { IncomingCall } from '../../planes/index.ts';
import { isRecord } from '../../records/index.ts';
import type { RecoveryRequest, RecoveryResponse, RouterEventRecord } from '../../worker-events/index.ts';
import { toRouterEvent } from './event-records.ts';

const EVENTS_MAX = 1024;

/**
 * Bound of the kept blocks, at 16 bytes a block. A rank that stores thousands of blocks in each event keeps fewer
 * events.
 */
const BLOCKS_MAX = 1 << 20;

interface RankJournalOptions {
  readonly dpRank: number;
  /** Index of this worker's blocks, which its ranks share. */
  readonly index: BlockIndex;
  /** Number of the rank in the index. */
  readonly rank: number;
  /** Id of the worker, in decimal. */
  readonly workerId: string;
  /** Id of the publisher, in hex. */
  readonly publisherId: string;
}

/** Blocks in one part of an answer: 256 KiB. */
const PART_BLOCKS_MAX = 16_384;

/**
 * The events that one rank has published, numbered from 1: the last 1,024 of them, and an index of the blocks that
 * result from all. It answers routers that have missed events.
 */
export class RankJournal {
  readonly #options: RankJournalOptions;
  readonly #ring = new EventRing();

  constructor(options: RankJournalOptions) {
    this.#options = options;
  }

  /** Id of the last event; 0 = none was published yet. */
  get lastEventId(): number {
    return this.#ring.newest;
  }

  /** Numbers an event. Call it for each event before it is published. */
  append(event: KvEvent): number {
    const { index, rank } = this.#options;
    // An event that this index refuses (a parent that is gone) a router's index refuses, too: both stay equal.
    if (event.kind === 'cleared') index.cleared(rank);
    else if (event.kind === 'removed') index.removed(rank, event.tier ?? 'device', event.blockHashes);
    else index.stored(rank, event.tier ?? 'device', event.parentHash, event.blockHashes, event.tokensHashes);
    return this.#ring.add(event);
  }

  /** Returns whether the answer contains every block of the rank, which costs more than a few events. */
  needsDump({ start_event_id: start, end_event_id: end }: RecoveryRequest): boolean {
    if (start !== undefined && end !== undefined && end < start) return false;
    const { oldest, newest } = this.#ring;
    return start === undefined || oldest > newest || start < oldest;
  }

  /**
   * Yields the parts of an answer, which shows the state at the first call of `next`. It yields undefined at the end of
   * a slice of work, after which the caller should continue in another turn. A dump may contain some later events. Its
   * reader must apply all events after the dump's `last_event_id`.
   */
  *answer(request: RecoveryRequest): Generator<RecoveryResponse | undefined, void, void> {
    const { start_event_id: start, end_event_id: end } = request;
    const { publisherId: publisher_id, index, rank } = this.#options;
    const { newest } = this.#ring;
    if (this.needsDump(request)) {
      let from = 0;
      for (const { runs, isLast } of index.dump(rank)) {
        const ids = from; // a dump counts its own event ids
        const events = runs.map((run, at) => this.#record(ids + at, this.#stored(run)));
        if (events.length > 0) yield { TreeDump: { events, last_event_id: newest }, publisher_id };
        from += events.length;
        if (!isLast) yield undefined;
      }
      if (from === 0) yield { TreeDump: { events: [], last_event_id: newest }, publisher_id };
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
      for (const part of inParts(kept)) {
        const events = part.map(({ id, event }) => this.#record(id, event));
        yield { Events: { events, last_event_id: last }, publisher_id };
      }
    }
  }

  #stored({ tier, parent: parentHash, blockHashes, tokensHashes }: StoredRun): KvEvent {
    return { kind: 'stored', dpRank: this.#options.dpRank, tier, parentHash, blockHashes, tokensHashes };
  }

  #record(eventId: number, event: KvEvent): RouterEventRecord {
    return toRouterEvent(this.#options.workerId, eventId, event);
  }
}

interface KeptEvent {
  readonly id: number;
  readonly event: KvEvent;
}

/** Yields `kept` in groups of at most a part's blocks, and at least one group. A larger event is a group of its own. */
function* inParts(kept: readonly KeptEvent[]): Generator<readonly KeptEvent[], void, void> {
  let from = 0;
  let blocks = 0;
  for (const [at, { event }] of kept.entries()) {
    blocks += blocksOf(event);
    if (blocks < PART_BLOCKS_MAX) continue;
    yield kept.slice(from, at + 1);
    from = at + 1;
    blocks = 0;
  }
  if (from < kept.length || from === 0) yield kept.slice(from);
}

/** The last events of one rank, for routers that missed some. Ids have no gaps. */
export class EventRing {
  readonly #events: (KvEvent | undefined)[] = new Array(EVENTS_MAX);
  #first = 1;
  #next = 1;
  #blocks = 0;

  /** Id of the last event added; if there was none, the id before the first. */
  get newest(): number {
    return this.#next - 1;
  }

  /** Id of the oldest event that is kept; `newest + 1` if none is kept. */
  get oldest(): number {
    return this.#first;
  }

  /** Adds an event and returns its id. */
  add(event: KvEvent): number {
    if (this.#next - this.#first === EVENTS_MAX) this.#drop();
    const id = this.#next++;
    this.#events[id % EVENTS_MAX] = event;
    this.#blocks += blocksOf(event);
    while (this.#blocks > BLOCKS_MAX && this.#first < id) this.#drop();
    return id;
  }

  /** Returns the event of an id between `oldest` and `newest`. */
  at(id: number): KvEvent {
    const event = this.#events[id % EVENTS_MAX];
    if (event === undefined || id < this.#first || id >= this.#next) throw new RangeError(`event ${id} is not kept`);
    return event;
  }

  #drop(): void {
    this.#blocks -= blocksOf(this.at(this.#first));
    this.#events[this.#first % EVENTS_MAX] = undefined;
    this.#first++;
  }
}

function blocksOf(event: KvEvent): number {
  return event.kind === 'cleared' ? 0 : event.blockHashes.length / 2;
}

/** Most answers with every block of a rank at the same time. Further queries are refused until one ends. */
const DUMPS_MAX = 8;

/** The part of a call that a recovery uses. */
export type RecoveryCall = Pick<
  IncomingCall,
  'body' | 'stopped' | 'accept' | 'output' | 'end' | 'fail' | 'isBlocked' | 'onUnblocked'
>;

/** Answers routers that ask for missed events; one service for all ranks of a worker. */
export class RecoveryService {
  #dumps = 0;

  /** Serves one query on `journal`. */
  serve(journal: RankJournal, call: RecoveryCall): void {
    const request = readRequest(call.body);
    if (request === undefined) {
      call.fail(workerError('InvalidArgument', 'a recovery query has whole event ids'));
      return;
    }
    const isDump = journal.needsDump(request);
    if (isDump && this.#dumps >= DUMPS_MAX) {
      call.fail(workerError('WorkerOverloaded', `${DUMPS_MAX} dumps are under way`)); // routers try again
      return;
    }
    if (isDump) this.#dumps++;
    call.accept();
    this.#send(call, journal.answer(request), () => {
      if (isDump) this.#dumps--;
    });
  }

  /**
   * Sends parts as fast as the router takes them, one slice of a dump in each turn, so that the engine's tokens leave
   * in between.
   */
  #send(call: RecoveryCall, parts: Generator<RecoveryResponse | undefined, void, void>, onOver: () => void): void {
    while (!call.stopped.aborted) {
      if (call.isBlocked()) {
        call.onUnblocked(() => this.#send(call, parts, onOver));
        return;
      }
      const part = parts.next();
      if (part.done === true) break;
      if (part.value === undefined) {
        setImmediate(() => this.#send(call, parts, onOver));
        return;
      }
      call.output({ body: part.value });
    }
    parts.return();
    call.end(); // does nothing if the stream is already gone
    onOver();
  }
}

function readRequest(body: unknown): RecoveryRequest | undefined {
  if (!isRecord(body)) return undefined;
  const { start_event_id, end_event_id, ...rest } = body;
  const start = start_event_id ?? undefined;
  const end = end_event_id ?? undefined;
  if (!isEventId(start) || !isEventId(end)) return undefined;
  return {
    ...(rest as Pick<RecoveryRequest, 'worker_id' | 'dp_rank'>), // the endpoint already names both
    ...(start === undefined ? {} : { start_event_id: start }),
    ...(end === undefined ? {} : { end_event_id: end }),
  };
}

function isEventId(value: unknown): value is number | undefined {
  return value === undefined || (Number.isSafeInteger(value) && (value as number) >= 0);
}
