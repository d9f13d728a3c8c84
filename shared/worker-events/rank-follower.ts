import type { Clock, Random, Timer } from '../clock/index.ts';
import type { Semaphore } from '../concurrency/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { RankId } from '../router/index.ts';
import type { BlockChange, BlockChangeSink, RankEvent } from './kv-events.ts';
import { EventBuffer, type LiveEvent, type RecoveryAnswer } from './recovery.ts';

/** Bound of the recoveries that a router runs at once. */
export const RECOVERIES_AT_ONCE_MAX = 16;

/** Counters of a router's followers. */
export interface FollowerObserver {
  /** Hears that an event came a second time, or late. */
  stale(): void;
  /** Hears that a live event was dropped because a recovery took too long. */
  dropped(): void;
  /** Hears that a recovery ended. */
  recovered(kind: RecoveryKind, outcome: 'ok' | 'failed'): void;
}

/** Recovery of all blocks of the rank, or of the events that were missed. */
export type RecoveryKind = 'restore' | 'gap';

export interface RankFollowerOptions {
  readonly rank: RankId;
  readonly sink: BlockChangeSink;
  readonly clock: Clock;
  readonly random: Random;
  readonly slots: Semaphore;
  readonly observer: FollowerObserver;
  /** Lets other work run between two slices of a large answer. */
  readonly defer: () => Promise<void>;
  /** Whether the worker keeps an index of its own. If not, missed events stay lost. */
  readonly canRecover: boolean;
  /**
   * Asks the worker for the events from `startEventId` on, or for all its blocks.
   * @param publisherId publisher that the follower follows, hex; undefined = unknown yet
   */
  query(
    startEventId: number | undefined,
    signal: AbortSignal,
    publisherId: string | undefined,
  ): Promise<RecoveryAnswer>;
  /** Hears that a recovery was given up after its last attempt. */
  onFailed(reason: string): void;
}

const ATTEMPTS_MAX = 8;
const BACKOFF_MS = 200;
/** Share by which a pause varies, so that followers that failed together do not retry together. */
const BACKOFF_JITTER = 0.5;
/** Time within which the restores of a fleet begin: routers that start together ask the same workers. */
const RESTORE_SPREAD_MS = 100;
/** Time for which an announced event may still be on its way. */
const ANNOUNCED_GRACE_MS = 250;
/** Number of blocks of an answer that are applied in one turn of the event loop; about 1 ms of work. */
const SLICE_BLOCKS = 4096;
/** Replaced publishers of a rank whose late events the follower still recognizes. */
const RETIRED_KEPT_MAX = 4;

/** Outcome of one attempt. `progress`: the attempt brought events, but some are still missing. */
type AttemptResult = 'complete' | 'progress' | 'failed';

/**
 * Keeps the index equal to the blocks that one rank holds, through loss, duplication, reordering and restarts.
 *
 * | State | event <= cursor | cursor + 1 | later event | `cleared` later than cursor | answer | last attempt failed |
 * |---|---|---|---|---|---|---|
 * | no cursor | - | - | buffer, -> recovering (all) | cursor := id, -> following | - | - |
 * | following | ignore | apply | buffer, -> recovering (gap) | forget all, cursor := id | - | - |
 * | recovering | ignore | buffer | buffer | with a cursor: forget all, cursor := id, answer void; else buffer | apply, then the buffer; whole: -> following, hole: again | drop the buffer; next event or announcement tries again |
 *
 * After a new publisher, or a new endpoint of the worker, it forgets all and goes to recovering (all) from every state.
 * `resume` continues from a snapshot, whose owner has replaced the contents of the index.
 */
export class RankFollower {
  readonly #options: RankFollowerOptions;
  readonly #buffer = new EventBuffer();
  readonly #retired: string[] = [];
  /** Last event that the index contains. */
  #cursor: number | undefined;
  #publisherId: string | undefined;
  /** Highest id that the worker reports as published. */
  #announced = 0;
  #announceTimer: Timer | undefined;
  /** Present recovery. If it is aborted, its answer is void. */
  #recovery: AbortController | undefined;
  /** Callbacks, called once when no event is missing any more, or with the reason why that cannot happen. */
  readonly #waits = new Set<(failure: Error | undefined) => void>();
  #isClosed = false;

  constructor(options: RankFollowerOptions) {
    this.#options = options;
  }

  /** Last event that the index contains; undefined before the first restore. */
  get cursor(): number | undefined {
    return this.#cursor;
  }

  /** Publisher of the rank's events, hex; undefined = unknown yet. */
  get publisherId(): string | undefined {
    return this.#publisherId;
  }

  get isRecovering(): boolean {
    return this.#recovery !== undefined;
  }

  /** Fetches all blocks of the rank, unless events already caused that. */
  start(): void {
    if (!this.#options.canRecover) this.#cursor ??= 0;
    else if (this.#recovery === undefined && this.#cursor === undefined) this.#recover();
  }

  /**
   * Continues after the index was replaced by one that contains the events up to `place`, or nothing of this rank.
   * Without a place, the next event, `start` or `recover` asks for all blocks. Voids a recovery in progress.
   */
  resume(place: { readonly eventId: number; readonly publisherId: string | undefined } | undefined): void {
    if (this.#isClosed) return;
    this.#cancelRecovery();
    this.#endWaits(new Error('the index was replaced'));
    this.#buffer.clear();
    this.#announced = 0;
    this.#cursor = place?.eventId;
    this.#publisherId = place?.publisherId;
    this.#retired.length = 0;
  }

  /**
   * Asks the worker for everything that is missing, unless it has already asked. Resolves when that is applied. Rejects
   * if the last attempt failed, the index was replaced meanwhile, or the signal aborted.
   */
  recover(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      if (this.#isClosed) throw new Error('the rank is not followed any more');
      if (!this.#options.canRecover) {
        this.#cursor ??= 0; // missed events stay lost
        resolve();
        return;
      }
      const wait = (failure: Error | undefined): void => {
        signal.removeEventListener('abort', onAbort);
        if (failure === undefined) resolve();
        else reject(failure);
      };
      const onAbort = (): void => {
        this.#waits.delete(wait);
        reject(signal.reason);
      };
      this.#waits.add(wait);
      signal.addEventListener('abort', onAbort, { once: true });
      if (this.#recovery === undefined) this.#recover();
    });
  }

  /** Takes an event from the event plane. */
  live(live: LiveEvent): void {
    if (this.#isClosed) return;
    const { event, publisherId } = live;
    if (publisherId !== this.#publisherId) {
      if (this.#retired.includes(publisherId)) return; // a late event of a replaced publisher
      this.#adopt(publisherId);
    }
    if (this.#cursor !== undefined && event.eventId <= this.#cursor) {
      this.#options.observer.stale();
    } else if (event.change.kind === 'cleared' && !this.#isRestoring) {
      this.#clear(event.eventId);
    } else if (this.#recovery === undefined && event.eventId === (this.#cursor ?? Number.NaN) + 1) {
      this.#advance(event);
    } else if (!this.#options.canRecover) {
      this.#advance(event); // missed events stay lost
    } else {
      if (this.#buffer.add(live) > 0) this.#options.observer.dropped();
      if (this.#recovery === undefined) this.#recover();
    }
  }

  /**
   * Notes that the worker has published events up to `eventId`, because the last ones before a silence can be lost,
   * too.
   */
  announced(eventId: number): void {
    this.#announced = eventId;
    if (this.#isClosed || !this.#options.canRecover) return;
    if (this.#announceTimer !== undefined || !this.#isBehind()) return;
    this.#announceTimer = this.#options.clock.after(ANNOUNCED_GRACE_MS, () => {
      this.#announceTimer = undefined;
      if (this.#recovery === undefined && this.#isBehind()) this.#recover();
    });
  }

  /**
   * Asks the worker after messages of it were lost. Only the answer shows whether events of this rank were among them.
   */
  suspect(): void {
    if (this.#isClosed || this.#recovery !== undefined || !this.#options.canRecover) return;
    this.#recover();
  }

  /** Forgets all blocks and asks for them again, because another process now has the worker's id. */
  replaced(): void {
    if (this.#isClosed) return;
    this.#reset();
    this.#retire();
    if (this.#options.canRecover) this.#recover();
    else this.#cursor = 0;
  }

  close(): void {
    this.#isClosed = true;
    this.#announceTimer?.cancel();
    this.#announceTimer = undefined;
    this.#cancelRecovery();
    this.#endWaits(new Error('the rank is not followed any more'));
    this.#buffer.clear();
  }

  /** Follows this publisher from now on. Forgets the blocks of the previous one, and asks for all. */
  #adopt(publisherId: string): void {
    if (this.#publisherId !== undefined) this.replaced();
    this.#publisherId = publisherId;
  }

  #retire(): void {
    if (this.#publisherId === undefined) return;
    this.#retired.push(this.#publisherId);
    if (this.#retired.length > RETIRED_KEPT_MAX) this.#retired.shift();
    this.#publisherId = undefined;
  }

  /** Passes the event to the sink, and moves the cursor to it. */
  #advance({ eventId, change }: RankEvent): void {
    this.#changeBlocks(change);
    this.#cursor = eventId;
  }

  #changeBlocks(change: BlockChange): void {
    const { sink, rank } = this.#options;
    sink.changed(rank.workerId, rank.dpRank, change);
  }

  /** Clears the rank: earlier events no longer matter. */
  #clear(eventId: number): void {
    this.#cancelRecovery();
    this.#changeBlocks({ kind: 'cleared' });
    this.#cursor = eventId;
    this.#goOn();
    if (this.#recovery === undefined) this.#endWaits(undefined);
  }

  #reset(): void {
    this.#cancelRecovery();
    this.#buffer.clear();
    this.#changeBlocks({ kind: 'cleared' });
    this.#cursor = undefined;
    this.#announced = 0;
  }

  #cancelRecovery(): void {
    this.#recovery?.abort(new Error('the recovery was overtaken'));
    this.#recovery = undefined;
  }

  /** Applies the buffered events that follow the cursor without a gap. */
  #drainBuffer(): void {
    this.#buffer.keepAfter(this.#cursor ?? 0, this.#publisherId);
    for (let live = this.#buffer.take(this.#next); live !== undefined; live = this.#buffer.take(this.#next)) {
      this.#advance(live.event);
    }
  }

  /** Applies the live events that came during a recovery, and begins another one if some are missing. */
  #goOn(): void {
    this.#drainBuffer();
    if (this.#hasHole() && this.#options.canRecover) this.#recover();
  }

  /** Whether the follower waits for all blocks. That answer also names the present publisher. */
  get #isRestoring(): boolean {
    return this.#recovery !== undefined && this.#cursor === undefined;
  }

  get #next(): number {
    return (this.#cursor ?? 0) + 1;
  }

  #hasHole(): boolean {
    return !this.#buffer.isEmpty || this.#isBehind();
  }

  #isBehind(): boolean {
    return this.#cursor === undefined || this.#announced > this.#cursor;
  }

  #recover(): void {
    const aborter = new AbortController();
    this.#recovery = aborter;
    const kind: RecoveryKind = this.#cursor === undefined ? 'restore' : 'gap';
    this.#runRecovery(aborter.signal).then(
      (failure) => this.#recoveryEnded(aborter, kind, failure),
      (thrown: unknown) => this.#recoveryEnded(aborter, kind, reasonOf(thrown)),
    );
  }

  #recoveryEnded(aborter: AbortController, kind: RecoveryKind, failure: string | undefined): void {
    if (this.#recovery !== aborter) return; // overtaken
    this.#recovery = undefined;
    const { observer, onFailed } = this.#options;
    observer.recovered(kind, failure === undefined ? 'ok' : 'failed');
    if (failure === undefined) {
      this.#goOn(); // events may have come since the last check
      if (this.#recovery === undefined) this.#endWaits(undefined);
      return;
    }
    this.#buffer.clear();
    this.#endWaits(new Error(failure));
    onFailed(failure);
  }

  #endWaits(failure: Error | undefined): void {
    for (const wait of this.#waits) wait(failure);
    this.#waits.clear();
  }

  /** Resolves with undefined, or with the reason why the recovery was given up. */
  async #runRecovery(signal: AbortSignal): Promise<string | undefined> {
    const { clock, random, slots } = this.#options;
    if (this.#cursor === undefined) await clock.sleep(random.next() * RESTORE_SPREAD_MS, signal);
    let reason = '';
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      if (attempt > 0) await clock.sleep(backOffMs(attempt, random), signal);
      let result: AttemptResult;
      try {
        result = await slots.run(() => this.#attempt(signal), signal);
        if (result === 'failed') reason = 'the worker does not have the events that it announced';
      } catch (thrown) {
        if (signal.aborted) throw thrown;
        result = 'failed';
        reason = reasonOf(thrown);
      }
      if (result === 'complete') return undefined;
      if (result === 'progress') attempt = -1;
    }
    return reason;
  }

  async #attempt(signal: AbortSignal): Promise<AttemptResult> {
    const before = this.#cursor;
    const startEventId = before === undefined ? undefined : before + 1;
    const answer = await this.#options.query(startEventId, signal, this.#publisherId);
    signal.throwIfAborted();
    if (answer.kind === 'refused') throw new Error(answer.reason);
    if (this.#isFromAnother(answer.publisherId) && answer.kind !== 'dump') {
      this.#forget(answer.publisherId); // its ids are not those of the cursor
      return 'progress';
    }
    if (answer.kind === 'too_new') {
      if (before === undefined || answer.newestEventId < before) {
        this.#forget(answer.publisherId); // another process, with ids from 1
        return before === undefined ? 'failed' : 'progress';
      }
      this.#announced = Math.min(this.#announced, answer.newestEventId);
    } else if (answer.kind === 'dump') {
      this.#forget(answer.publisherId);
      // The ids of a dump are its own, so they do not move the cursor.
      await this.#inSlices(answer.events, signal, ({ change }) => this.#changeBlocks(change));
      this.#cursor = answer.lastEventId;
    } else {
      await this.#inSlices(answer.events, signal, (event) => {
        if (event.eventId > (this.#cursor ?? 0)) this.#advance(event);
      });
      this.#cursor = Math.max(this.#cursor ?? 0, answer.lastEventId);
    }
    this.#drainBuffer();
    if (!this.#hasHole()) return 'complete';
    return this.#cursor === before ? 'failed' : 'progress';
  }

  #isFromAnother(publisherId: string | undefined): boolean {
    return publisherId !== undefined && this.#publisherId !== undefined && publisherId !== this.#publisherId;
  }

  /** Clears the rank for the blocks of a publisher, which may be a new one. */
  #forget(publisherId: string | undefined): void {
    this.#changeBlocks({ kind: 'cleared' });
    this.#cursor = undefined;
    if (publisherId === undefined || publisherId === this.#publisherId) return;
    this.#retire();
    this.#publisherId = publisherId;
    this.#announced = 0;
  }

  /** Runs `take` on every event, in slices. */
  async #inSlices(events: readonly RankEvent[], signal: AbortSignal, take: (event: RankEvent) => void): Promise<void> {
    let blocks = 0;
    for (const event of events) {
      take(event);
      blocks += event.change.kind === 'cleared' ? 0 : event.change.blockHashes.length / 2;
      if (blocks < SLICE_BLOCKS) continue;
      blocks = 0;
      await this.#options.defer();
      signal.throwIfAborted();
    }
  }
}

/** Returns the pause before attempt number `attempt`, counted from 0. */
function backOffMs(attempt: number, random: Random): number {
  return BACKOFF_MS * 2 ** (attempt - 1) * (1 + BACKOFF_JITTER * (2 * random.next() - 1));
}
