import type { BlockIndex, StoredRun } from '../../block-index/index.ts';
import type { KvEvent } from '../../engines/index.ts';
import { workerError } from '../../errors/index.ts';
import type { IncomingCall } from '../../planes/index.ts';
import { isRecord } from '../../records/index.ts';
import type { RecoveryRequest, RecoveryResponse, RouterEventRecord } from '../../worker-events/index.ts';
import { toRouterEvent } from './event-records.ts';

const EVENTS_MAX = 1024;

/** Blocks kept in all; a rank that stores thousands of blocks in each event keeps fewer events. 16 bytes a block. */
const BLOCKS_MAX = 1 << 20;

interface RankJournalOptions {
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
 * amount to. Answers routers that have missed something.
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

  /**
   * The parts of an answer, which is that of the first call of `next`; undefined = a slice of work is over, and the
   * next one is better left to another turn. A dump may hold some of what was published since: it is to be followed by all events after its `last_event_id`.
   */
  *answer(request: RecoveryRequest): Generator<RecoveryResponse | undefined, void, void> {
    const { start_event_id: start, end_event_id: end } = request;
    const { publisherId: publisher_id, index, rank } = this.#options;
    const { newest } = this.#ring;
    if (this.needsDump(request)) {
      let from = 0;
      for (const { runs, isLast } of index.dump(rank)) {
        const ids = from; // of a dump, which has its own
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

/** `kept` in groups of at most a part's blocks, at least one group; a single larger event is a group of its own. */
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

  /** Id of the last event added; one before the first id when there was none. */
  get newest(): number {
    return this.#next - 1;
  }

  /** Id of the oldest event kept; `newest + 1` when none is. */
  get oldest(): number {
    return this.#first;
  }

  /** Returns the event's id. */
  add(event: KvEvent): number {
    if (this.#next - this.#first === EVENTS_MAX) this.#drop();
    const id = this.#next++;
    this.#events[id % EVENTS_MAX] = event;
    this.#blocks += blocksOf(event);
    while (this.#blocks > BLOCKS_MAX && this.#first < id) this.#drop();
    return id;
  }

  /** Must be between `oldest` and `newest`. */
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

/** Answers with every block of a rank that are under way at once; more are refused for now. */
const DUMPS_MAX = 8;

/** Answers routers that ask what they have missed; one for all ranks of a worker. */
export class RecoveryService {
  #dumps = 0;

  /** Serves one query on `journal`. */
  serve(journal: RankJournal, call: IncomingCall): void {
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

  /** Sends parts as fast as the router takes them, a slice of a dump a turn: the engine's tokens go out between them. */
  #send(call: IncomingCall, parts: Generator<RecoveryResponse | undefined, void, void>, onOver: () => void): void {
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
    call.end(); // nothing where the stream is gone already
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
    ...(rest as Pick<RecoveryRequest, 'worker_id' | 'dp_rank'>), // the endpoint says both already
    ...(start === undefined ? {} : { start_event_id: start }),
    ...(end === undefined ? {} : { end_event_id: end }),
  };
}

function isEventId(value: unknown): value is number | undefined {
  return value === undefined || (Number.isSafeInteger(value) && (value as number) >= 0);
}
