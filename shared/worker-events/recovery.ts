import type { Clock, Random } from '../clock/index.ts';
import { endOfTurn } from '../concurrency/index.ts';
import { workerError } from '../errors/index.ts';
import { askOnce, type PlaneRequest, type RequestPlane, type Transport } from '../planes/index.ts';
import { RecordReader, u64OfHex } from '../records/index.ts';
import type { RankId } from '../router/index.ts';
import { decodeRouterEvent, type RankEvent, type RecoveryRequest, type SkipReason } from './kv-events.ts';

/** Decoded answer of a worker. */
export type RecoveryAnswer = {
  /** Publisher, hex; undefined if the worker does not name it. */
  readonly publisherId: string | undefined;
} & (
  | { readonly kind: 'events' | 'dump'; readonly events: readonly RankEvent[]; readonly lastEventId: number }
  | { readonly kind: 'too_new'; readonly newestEventId: number }
  | { readonly kind: 'refused'; readonly reason: string }
);

export interface RecoveryClientOptions {
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly random: Random;
  /** Hears that an event of an answer could not be read. */
  onSkip(reason: SkipReason): void;
  /** Lets other work run between two slices of a large answer. @default until the end of the turn of the event loop */
  readonly defer?: () => Promise<void>;
}

const read = new RecordReader((what) => workerError('BackendProtocol', `recovery answer: ${what}`));

/** Deadline of one whole answer. */
const ANSWER_MS_MAX = 30_000;
/** Bound of the blocks in one answer. A larger answer would not fit the index either. */
const ANSWER_BLOCKS_MAX = 1 << 26;
/** Bound of the events in one part of an answer. A worker sends at most 16,384, with a block each. */
const PART_EVENTS_MAX = 1 << 15;
/** Events and blocks of a long part that one turn of the event loop reads; 1 to 2 ms of work. */
const SLICE_STEPS = 4096;

/** Asks workers for the events that a router has missed. */
export class RecoveryClient {
  readonly #options: RecoveryClientOptions;

  constructor(options: RecoveryClientOptions) {
    this.#options = options;
  }

  /**
   * Returns the events from `startEventId` on, or all blocks of the rank if it is undefined. Rejects with a
   * `ServeError` if the worker cannot be reached, takes more than 30 s or sends an invalid answer, and with the
   * signal's reason.
   *
   * @param workerId hex
   */
  async query(
    transport: Transport,
    workerId: string,
    dpRank: number,
    startEventId: number | undefined,
    signal: AbortSignal,
  ): Promise<RecoveryAnswer> {
    const body: RecoveryRequest = {
      worker_id: u64OfHex(workerId).toString(),
      dp_rank: dpRank,
      ...(startEventId === undefined ? {} : { start_event_id: startEventId }),
      compact: true,
    };
    const answer = new AnswerReader(this.#options.onSkip);
    await this.#ask(transport, { body }, signal, (part) => answer.take(part));
    return answer.whole();
  }

  /** Asks a worker of Dynamo, as `query` does. The whole answer is one part, which is read in slices. */
  async queryDynamo(
    transport: Transport,
    { workerId, dpRank }: RankId,
    startEventId: number | undefined,
    signal: AbortSignal,
  ): Promise<RecoveryAnswer> {
    const { onSkip, defer = endOfTurn } = this.#options;
    const body = {
      worker_id: u64OfHex(workerId),
      dp_rank: dpRank,
      start_event_id: startEventId ?? null,
      end_event_id: null,
    };
    let whole: unknown;
    await this.#ask(transport, { body, isVerbatim: true }, signal, (part) => {
      whole = part;
    });
    const answer = new AnswerReader(onSkip);
    await answer.takeLong(whole, defer, signal);
    return answer.whole();
  }

  async #ask(
    transport: Transport,
    request: Pick<PlaneRequest, 'body' | 'isVerbatim'>,
    signal: AbortSignal,
    take: (part: unknown) => void,
  ): Promise<void> {
    const { plane, clock, random } = this.#options;
    const question = { id: random.uuid(), headers: {}, deadlineMs: ANSWER_MS_MAX, ...request };
    const limits = { clock, timeoutMs: ANSWER_MS_MAX, signal };
    const outcome = await askOnce(plane, transport, question, limits, (output) => take(output.body));
    signal.throwIfAborted();
    if (outcome.kind === 'failed') throw outcome.error;
  }
}

/** Joins the parts of an answer. */
class AnswerReader {
  readonly #onSkip: (reason: SkipReason) => void;
  readonly #events: RankEvent[] = [];
  #blocks = 0;
  #answer: RecoveryAnswer | undefined;

  constructor(onSkip: (reason: SkipReason) => void) {
    this.#onSkip = onSkip;
  }

  /** @throws ServeError if it has taken no part */
  whole(): RecoveryAnswer {
    if (this.#answer === undefined) throw workerError('BackendProtocol', 'an empty recovery answer');
    return this.#answer;
  }

  /** @throws ServeError for a part that does not belong to an answer */
  take(body: unknown): void {
    const part = this.#open(body);
    if (part === undefined) return;
    for (const record of read.list(part.events, 'events', PART_EVENTS_MAX)) this.#add(record);
  }

  /** Takes a part of any length, in slices. Rejects as `take` throws, and with the signal's reason. */
  async takeLong(body: unknown, defer: () => Promise<void>, signal: AbortSignal): Promise<void> {
    const events = read.list(this.#open(body)?.events ?? [], 'events');
    for (let at = 0, due = SLICE_STEPS; at < events.length; at++) {
      const blocks = this.#blocks;
      this.#add(events[at]);
      due -= 1 + this.#blocks - blocks;
      if (due > 0) continue;
      due = SLICE_STEPS;
      await defer();
      signal.throwIfAborted();
    }
  }

  /** Reads everything of a part but its events, and returns those; undefined if a part of its kind has none. */
  #open(body: unknown): { readonly events: unknown } | undefined {
    const {
      Events,
      TreeDump,
      TooNew,
      InvalidRange,
      Error: text,
      TreeDumpFailed,
      publisher_id,
    } = read.record(body, 'recovery answer');
    const publisherId = typeof publisher_id === 'string' ? publisher_id : undefined;
    if (Events !== undefined) return this.#begin('events', Events, publisherId);
    if (TreeDump !== undefined) return this.#begin('dump', TreeDump, publisherId);
    if (TooNew !== undefined) {
      const newestEventId = read.wholeNumber(read.record(TooNew, 'TooNew').newest_available, 'newest_available');
      this.#answer = { kind: 'too_new', newestEventId, publisherId };
    } else {
      const reason = JSON.stringify(text ?? InvalidRange ?? TreeDumpFailed ?? 'an answer of an unknown kind');
      this.#answer = { kind: 'refused', reason: reason.slice(0, 1000), publisherId };
    }
    return undefined;
  }

  #begin(kind: 'events' | 'dump', part: unknown, publisherId: string | undefined): { readonly events: unknown } {
    const { events, last_event_id } = read.record(part, kind);
    const lastEventId = read.wholeNumber(last_event_id, 'last_event_id');
    this.#answer = { kind, events: this.#events, lastEventId, publisherId };
    return { events };
  }

  #add(record: unknown): void {
    const event = decodeRouterEvent(record);
    if (typeof event === 'string') {
      this.#onSkip(event);
      return;
    }
    this.#blocks += event.change.kind === 'cleared' ? 0 : event.change.blockHashes.length / 2;
    if (this.#blocks > ANSWER_BLOCKS_MAX) throw workerError('BackendProtocol', 'a recovery answer without an end');
    this.#events.push(event);
  }
}

/** A live event and its publisher. */
export interface LiveEvent {
  readonly publisherId: string;
  readonly event: RankEvent;
}

/** Bound of the events that wait for a missing one. */
const BUFFERED_MAX = 1024;

/** Live events of one rank that wait for the end of a recovery. Bounded: the one that has waited longest is dropped. */
export class EventBuffer {
  readonly #events = new Map<number, LiveEvent>();

  get isEmpty(): boolean {
    return this.#events.size === 0;
  }

  /** Adds an event. Returns how many others were dropped for it. */
  add(live: LiveEvent): number {
    this.#events.set(live.event.eventId, live);
    if (this.#events.size <= BUFFERED_MAX) return 0;
    const [oldest] = this.#events.keys();
    if (oldest !== undefined) this.#events.delete(oldest);
    return 1;
  }

  /** Removes and returns the event. */
  take(eventId: number): LiveEvent | undefined {
    const live = this.#events.get(eventId);
    this.#events.delete(eventId);
    return live;
  }

  /** Drops events up to `eventId`, and events of other publishers. */
  keepAfter(eventId: number, publisherId: string | undefined): void {
    for (const [id, live] of this.#events) {
      if (id <= eventId || (publisherId !== undefined && live.publisherId !== publisherId)) this.#events.delete(id);
    }
  }

  clear(): void {
    this.#events.clear();
  }
}
