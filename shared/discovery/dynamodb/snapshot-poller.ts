import { setMaxListeners } from 'node:events';
import type { Clock, Random, Timer } from '../../clock/index.ts';
import { untilAborted } from '../../concurrency/index.ts';
import { ageMs, type Moment, momentOf } from '../moment.ts';
import type { ReportProblem, SnapshotWatcher } from '../snapshot-watcher.ts';
import type { ReadScope, TableReading } from './table-reader.ts';

export interface SnapshotPollerOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly pollMs: number;
  readonly read: (scopes: readonly ReadScope[], signal: AbortSignal) => Promise<TableReading>;
  /** What the watches are told of a failed reading; undefined for a failure that says nothing of the table. */
  readonly explain: (error: unknown) => Error | undefined;
  /** Runs after each reading was delivered; its failure is reported and stops nothing. */
  readonly onReading: (reading: TableReading, signal: AbortSignal) => Promise<void>;
  readonly report: ReportProblem;
}

/** A reading under way. */
interface Attempt {
  readonly began: Moment;
  /** Its signal is widened for the parallel calls of a reading. */
  readonly aborter: AbortController;
  /** True when the watches show it. Never rejects. */
  done: Promise<boolean>;
}

/** While the table cannot be read, it is tried again after twice the time, up to this. */
const BACK_OFF_MS_MAX = 5000;
/** A caller waits for fresh records: it does not sit out the back-off. Doubled with each failure. */
const REFRESH_RETRY_MS = 25;

/** Reads for all watches of a process at once, again and again, one reading at a time. */
export class SnapshotPoller {
  readonly #options: SnapshotPollerOptions;
  /** Each with the moment when the reading began that it shows. */
  readonly #watchers = new Map<SnapshotWatcher, Moment>();
  readonly #closing = new AbortController();
  #timer: Timer | undefined;
  #attempt: Attempt | undefined;
  #isFollowing = false;
  #failures = 0;
  /** When the last reading began, if it failed. */
  #failed: Moment | undefined;

  constructor(options: SnapshotPollerOptions) {
    this.#options = options;
    setMaxListeners(0, this.#closing.signal);
  }

  /** Readings have failed since the last one that worked. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  /** @param began when the reading began that `watcher` shows already. */
  add(watcher: SnapshotWatcher, began: Moment): void {
    this.#watchers.set(watcher, began);
    this.#schedule();
  }

  delete(watcher: SnapshotWatcher): void {
    this.#watchers.delete(watcher);
  }

  /**
   * Resolves once every watch shows a reading that began at most `maxAgeMs` ago, and at once where one does. Failed readings
   * are repeated until `signal` aborts, but a failure of that same age is not worth a wait: the next poll finds out.
   */
  async refresh(maxAgeMs: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const isRecent = (moment: Moment): boolean => ageMs(moment, clock) <= maxAgeMs;
    if ([...this.#watchers.values()].every(isRecent)) return;
    if (this.#failed !== undefined && isRecent(this.#failed)) return;
    if (this.#attempt !== undefined && !isRecent(this.#attempt.began)) this.#supersede(this.#attempt);
    for (let delayMs = REFRESH_RETRY_MS; ; delayMs *= 2) {
      const attempt = this.#attempt ?? this.#begin();
      if (await untilAborted(attempt.done, signal)) return;
      await clock.sleep(delayMs, signal);
    }
  }

  /** Tells the watches that a caller has given up waiting for a reading. */
  tellFailing(failure: Error): void {
    for (const watcher of this.#watchers.keys()) watcher.fail(failure);
  }

  close(): void {
    this.#watchers.clear();
    this.#timer?.cancel();
    const reason = new Error('the discovery handle is closed');
    this.#closing.abort(reason);
    this.#attempt?.aborter.abort(reason);
  }

  #schedule(): void {
    const isBusy = this.#timer !== undefined || this.#attempt !== undefined || this.#isFollowing;
    if (isBusy || this.#closing.signal.aborted) return;
    const { clock, random, pollMs } = this.#options;
    const backOffMs = Math.min(pollMs * 2 ** this.#failures, Math.max(BACK_OFF_MS_MAX, pollMs));
    this.#timer = clock.after(backOffMs * (0.9 + 0.2 * random.next()), () => {
      this.#timer = undefined;
      if (this.#watchers.size > 0) this.#begin(); // else `add` starts again
    });
  }

  #begin(): Attempt {
    this.#timer?.cancel();
    this.#timer = undefined;
    const aborter = new AbortController();
    setMaxListeners(0, aborter.signal);
    const attempt: Attempt = { began: momentOf(this.#options.clock), aborter, done: Promise.resolve(false) };
    this.#attempt = attempt;
    attempt.done = this.#read(attempt, [...this.#watchers.keys()]);
    return attempt;
  }

  /** Began before what is asked for: a reading from before the process was frozen, whose connection may be dead. */
  #supersede(attempt: Attempt): void {
    this.#attempt = undefined;
    attempt.aborter.abort(new Error('a newer reading is asked for'));
  }

  async #read(attempt: Attempt, watchers: readonly SnapshotWatcher[]): Promise<boolean> {
    const { signal } = attempt.aborter;
    let reading: TableReading | undefined;
    try {
      reading = await this.#options.read(watchers, signal);
      this.#failures = 0;
      this.#failed = undefined;
      for (const watcher of watchers) {
        if (this.#watchers.has(watcher)) this.#watchers.set(watcher, attempt.began);
        watcher.apply(reading.texts(watcher.bucket));
      }
    } catch (error) {
      if (!signal.aborted) this.#failedWith(error, attempt.began);
    }
    if (this.#attempt === attempt) this.#attempt = undefined;
    void this.#follow(reading); // never rejects
    return reading !== undefined;
  }

  #failedWith(error: unknown, began: Moment): void {
    const failure = this.#options.explain(error);
    if (failure === undefined) return;
    this.#failures++;
    this.#failed = began;
    this.tellFailing(failure);
  }

  async #follow(reading: TableReading | undefined): Promise<void> {
    const { signal } = this.#closing;
    if (reading !== undefined && !this.#isFollowing) {
      this.#isFollowing = true;
      try {
        await this.#options.onReading(reading, signal);
      } catch (error) {
        const failure = this.#options.explain(error);
        if (failure !== undefined && !signal.aborted) this.#options.report(failure);
      }
      this.#isFollowing = false;
    }
    this.#schedule();
  }
}
