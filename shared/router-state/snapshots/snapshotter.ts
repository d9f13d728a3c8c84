import { PeriodicTask } from '../../concurrency/index.ts';
import type { LeaseHolder } from '../lease-holder.ts';
import type { SnapshotPlace, SnapshotPointer } from '../router-state.ts';
import type { IndexReader } from './index-reader.ts';
import { objectName, objectPrefix, type SnapshotDeps, writeSnapshot } from './snapshot.ts';

export interface SnapshotterOptions extends SnapshotDeps {
  /** Reader that keeps `index` at the head of `log`. */
  readonly reader: Pick<IndexReader, 'position' | 'hydrations'>;
  readonly lease: Pick<LeaseHolder, 'fence' | 'renew'>;
  /** Longest time between two snapshots. @default 60_000 */
  readonly intervalMs?: number | undefined;
  /** Largest number of messages between two snapshots. @default 1_000_000 */
  readonly messagesMax?: number | undefined;
  onSnapshot?(place: SnapshotPlace): void;
  /**
   * Whether the last access to the store failed. If so, even a process that does not write tries again. @default it did
   * not fail
   */
  isStoreAway?(): boolean;
  /** Called with snapshots that failed. The next check tries again. */
  onProblem(problem: unknown): void;
}

/** Result of one attempt. */
export type SnapshotOutcome = 'written' | 'nothing_new' | 'not_ready' | 'lease_lost' | 'superseded';

const INTERVAL_MS = 60_000;
const MESSAGES_MAX = 1_000_000;
/** Interval between two checks whether a snapshot is due. */
const CHECK_MS = 1000;

/**
 * Writes the index to a place where later readers find it, while it holds the lease (docs/router-state.md):
 *
 *     renew lease -> put object -> move pointer -> purge log -> remove old objects
 *      own fence    new name      version, fence  <= previous    < previous
 *
 * If a step fails, readers can use the results of the earlier steps. Readers ignore an object without a pointer, and a
 * later step removes it. The log is purged, and objects are removed, only if neither of the two remaining snapshots
 * needs them.
 *
 * A holder that has lost its lease in between cannot move the pointer once its successor has moved it. Before that it
 * does no harm: its snapshot is whole and newer than the previous one.
 */
export class Snapshotter {
  readonly #options: SnapshotterOptions;
  readonly #task: PeriodicTask;
  #lastAtMs: number;
  #lastSequence = 0;

  constructor(options: SnapshotterOptions) {
    const { clock, random, onProblem } = options;
    this.#options = options;
    this.#lastAtMs = clock.nowMs();
    this.#task = new PeriodicTask({
      clock,
      random,
      periodMs: CHECK_MS,
      backOffMsMax: options.intervalMs ?? INTERVAL_MS, // each attempt writes a large object
      run: (signal) => this.#round(signal),
      onProblem,
    });
  }

  start(): void {
    this.#task.start();
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  /** Writes a snapshot now. Rejects if a step failed; the results of the earlier steps may stay. */
  async snapshot(signal: AbortSignal): Promise<SnapshotOutcome> {
    const { state, pointer, store, index, reader, lease } = this.#options;
    const fence = await lease.renew(signal);
    if (fence === undefined) return 'lease_lost';
    const seen = await state.readPointer(pointer, signal);
    const { position, hydrations } = reader;
    if (position === undefined) return 'not_ready';
    const isSameLog = seen?.createdAt === position.createdAt;
    if (isSameLog && seen.sequence >= position.sequence) return this.#done(seen.sequence, 'nothing_new');
    const place = { ...position, object: objectName(pointer, fence, position.sequence) };
    // Position and cursors are read in one turn of the event loop with the first slice of the index. Later slices can
    // only be newer.
    await store.put(place.object, writeSnapshot({ ...position, cursors: index.cursors() }, index.write()), signal);
    if (reader.hydrations !== hydrations) return 'not_ready'; // the index went back in time during the write
    if (lease.fence === undefined) return 'lease_lost';
    const isMoved = await state.movePointer(pointer, { to: place, fence: lease.fence, seen }, signal);
    if (!isMoved && !(await this.#isPointedTo(place, signal))) return 'superseded';
    this.#done(position.sequence, 'written');
    this.#options.onSnapshot?.(place);
    if (seen !== undefined) await this.#clear(seen, signal);
    return 'written';
  }

  async #round(signal: AbortSignal): Promise<void> {
    const { clock, reader, lease, intervalMs = INTERVAL_MS, messagesMax = MESSAGES_MAX } = this.#options;
    if (this.#options.isStoreAway?.() === true) await this.#options.store.list(signal);
    if (lease.fence === undefined || reader.position === undefined) return;
    const messages = reader.position.sequence - this.#lastSequence;
    const isDue = clock.nowMs() - this.#lastAtMs >= intervalMs || messages >= messagesMax;
    if (isDue) await this.snapshot(signal);
  }

  #done(sequence: number, outcome: SnapshotOutcome): SnapshotOutcome {
    this.#lastAtMs = this.#options.clock.nowMs();
    this.#lastSequence = sequence;
    return outcome;
  }

  /**
   * Whether the pointer names the snapshot now. After a lost answer, a repetition is refused although the first attempt
   * has moved the pointer.
   */
  async #isPointedTo(place: SnapshotPlace, signal: AbortSignal): Promise<boolean> {
    const { state, pointer } = this.#options;
    return (await state.readPointer(pointer, signal))?.object === place.object;
  }

  /** Deletes objects that neither the newest snapshot nor `previous` needs. */
  async #clear(previous: SnapshotPointer, signal: AbortSignal): Promise<void> {
    const { log, store, pointer } = this.#options;
    const { createdAt } = await log.state(signal);
    if (createdAt === previous.createdAt) await log.purge(previous.sequence, signal);
    const prefix = objectPrefix(pointer);
    const old = (await store.list(signal)).filter((name) => name.startsWith(prefix) && name < previous.object);
    for (const name of old) await store.remove(name, signal);
  }
}
