import { setMaxListeners } from 'node:events';
import { PeriodicTask } from '../../concurrency/index.ts';
import type { EventLogFollower, EventLogListener, EventLogState } from '../../planes/index.ts';
import type { RankId } from '../../router/index.ts';
import type { SnapshotPlace, SnapshotPointer } from '../router-state.ts';
import { type LogPosition, readSnapshot, type SnapshotDeps } from './snapshot.ts';

export interface IndexReaderOptions extends SnapshotDeps {
  /**
   * Interval between two attempts to hydrate while they fail, and between two checks that the log is still the same.
   * @default 1000
   */
  readonly checkMs?: number;
  /** Whether to drop the pointer before the first read, because stored snapshots cannot be trusted. @default false */
  readonly dropsPointer?: boolean;
  /** Called when the index was filled again. */
  onHydrated(from: HydratedFrom): void;
  /** Called after each successful check of a log that is followed. */
  onFollowing?(): void;
  /** Called when a snapshot could not be used. The reader then tries the next best source. */
  onUnusable?(problem: unknown): void;
  /** Called with each check of the log that failed. */
  onProblem(problem: unknown): void;
}

/** Source that filled the index. */
export type HydratedFrom = 'snapshot' | 'dumps';

const CHECK_MS = 1000;

/**
 * Keeps an index at the head of the event log. It loads the newest usable snapshot, follows the log from there, and
 * asks the workers for blocks that neither has.
 *
 *            pointer, snapshot                     every entry
 *   hydrating -----------------> following <---------------------
 *       ^  \---- dumps ------------^  |
 *       '----- gap, another log ------'
 *
 * It requests a dump only once it follows the log, so the dump contains all events published before. Events that are
 * applied twice change nothing.
 */
export class IndexReader {
  readonly #options: IndexReaderOptions;
  readonly #task: PeriodicTask;
  #position: LogPosition | undefined;
  #follower: EventLogFollower | undefined;
  #hydration: AbortController | undefined;
  #hydrations = 0;
  #mustDrop: boolean;

  constructor(options: IndexReaderOptions) {
    const { clock, random, checkMs = CHECK_MS, dropsPointer = false, onProblem } = options;
    this.#options = options;
    this.#mustDrop = dropsPointer;
    this.#task = new PeriodicTask({
      clock,
      random,
      periodMs: checkMs,
      run: (signal) => this.#round(signal),
      onProblem,
    });
  }

  start(): void {
    this.#task.start();
  }

  /** Position of the index in the log; undefined while it is being hydrated. Ranks may still wait for their dumps. */
  get position(): LogPosition | undefined {
    return this.#position;
  }

  /** Whether the log has answered and the index is being filled. A large snapshot takes a while. */
  get isHydrating(): boolean {
    return this.#hydration !== undefined && this.#position === undefined;
  }

  /** Number of times that the index was filled again. After that, it may be older than before. */
  get hydrations(): number {
    return this.#hydrations;
  }

  async stop(): Promise<void> {
    this.#forget();
    await this.#task.stop();
    await this.#unfollow();
  }

  /** Reads the log's state regularly, because a log that was replaced by an empty one sends no event. */
  async #round(signal: AbortSignal): Promise<void> {
    const before = this.#position; // the answer may be older than messages that arrive before it
    const state = await this.#options.log.state(signal);
    const isSameLog = before?.createdAt === state.createdAt && before.sequence <= state.lastSequence;
    if (!isSameLog || this.#position === undefined) await this.#hydrate(state, signal);
    if (this.#position !== undefined) this.#options.onFollowing?.(); // there was no gap meanwhile
  }

  async #hydrate(state: EventLogState, stopping: AbortSignal): Promise<void> {
    this.#forget();
    await this.#unfollow();
    this.#hydrations++;
    const hydration = new AbortController();
    this.#hydration = hydration;
    const signal = AbortSignal.any([stopping, hydration.signal]);
    setMaxListeners(0, signal); // every rank may be waiting for its dump
    const loaded = await this.#loadNewest(state, signal);
    if (loaded === undefined) this.#options.index.clear();
    this.#options.onHydrated(loaded === undefined ? 'dumps' : 'snapshot');
    // A dump covers everything before the log's present end, because workers apply events to the dumped index before
    // they publish them.
    const sequence = loaded?.sequence ?? state.lastSequence;
    this.#position = { createdAt: state.createdAt, sequence };
    try {
      const follower = await this.#options.log.follow(sequence + 1, this.#listenerOf(hydration), signal);
      if (this.#hydration === hydration) this.#follower = follower;
      else await follower.close();
    } catch (error) {
      this.#forget();
      throw error;
    }
    if (this.#hydration === hydration) void this.#recoverMissing(signal); // never rejects
  }

  /** Loads the newest snapshot that this log continues, or otherwise the one before. */
  async #loadNewest(state: EventLogState, signal: AbortSignal): Promise<SnapshotPlace | undefined> {
    const pointer = await this.#readPointer(signal);
    for (const place of [pointer, pointer?.previous]) {
      if (place === undefined || !isContinuedBy(place, state)) continue;
      try {
        if (await this.#load(place, signal)) return place;
      } catch (problem) {
        signal.throwIfAborted();
        this.#options.onUnusable?.(problem); // cut short, damaged, or of another version: try the next best
      }
    }
    return undefined;
  }

  async #readPointer(signal: AbortSignal): Promise<SnapshotPointer | undefined> {
    const { state, pointer } = this.#options;
    try {
      if (!this.#mustDrop) return await state.readPointer(pointer, signal);
      await state.dropPointer(pointer, signal);
      this.#mustDrop = false; // later snapshots can be trusted
      return undefined;
    } catch {
      signal.throwIfAborted();
      return undefined; // the table reports its own failures; the workers have the blocks, too
    }
  }

  /** Loads a snapshot. Returns false if its object no longer exists. */
  async #load(place: SnapshotPlace, signal: AbortSignal): Promise<boolean> {
    const bytes = await this.#options.store.get(place.object, signal);
    if (bytes === undefined) return false;
    const { head, indexes } = readSnapshot(bytes);
    if (head.createdAt !== place.createdAt || head.sequence !== place.sequence) {
      throw new RangeError(`snapshot "${place.object}" is not the one that its pointer means`);
    }
    await this.#options.index.load(indexes, head.cursors, signal);
    return true;
  }

  /**
   * Recovers the ranks that the snapshot lacks, or has only in part. A rank that cannot be recovered does not delay the
   * others.
   */
  async #recoverMissing(signal: AbortSignal): Promise<void> {
    const { index } = this.#options;
    const complete = new Set(index.cursors().map(nameOf));
    const missing = index.ranks().filter((rank) => !complete.has(nameOf(rank)));
    await Promise.all(
      missing.map(async (rank) => {
        try {
          await index.recover(rank, signal);
        } catch {
          // The feed logs the failure; the rank's next event tries again.
        }
      }),
    );
  }

  /** Returns a listener that drops the messages of an earlier hydration. */
  #listenerOf(hydration: AbortController): EventLogListener {
    return {
      entry: ({ sequence, envelope }) => {
        const position = this.#position;
        if (this.#hydration !== hydration || position === undefined || sequence <= position.sequence) return;
        this.#options.index.received(envelope);
        this.#position = { createdAt: position.createdAt, sequence };
      },
      gap: () => {
        if (this.#hydration !== hydration) return;
        this.#forget();
        this.#task.soon(); // finds no position, and starts again from the pointer
      },
    };
  }

  /** Forgets the position of the index and voids the dumps in progress. */
  #forget(): void {
    this.#position = undefined;
    this.#hydration?.abort(new Error('the index is hydrated anew'));
    this.#hydration = undefined;
  }

  async #unfollow(): Promise<void> {
    const follower = this.#follower;
    this.#follower = undefined;
    await follower?.close();
  }
}

/** Whether the log has every message after the snapshot. */
function isContinuedBy(place: SnapshotPlace, state: EventLogState): boolean {
  const isSameLog = place.createdAt === state.createdAt;
  return isSameLog && state.firstSequence <= place.sequence + 1 && place.sequence <= state.lastSequence;
}

function nameOf({ workerId, dpRank }: RankId): string {
  return `${workerId}/${dpRank}`;
}
