import { setMaxListeners } from 'node:events';
import type { Clock, Random, Timer } from '../../clock/index.ts';
import type { ReportProblem, SnapshotWatcher } from '../snapshot-watcher.ts';
import type { ReadScope, TableReading } from './table-reader.ts';

export interface SnapshotPollerOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly pollMs: number;
  readonly read: (scopes: readonly ReadScope[], signal: AbortSignal) => Promise<TableReading>;
  /** What the watches are told of a failed reading. */
  readonly explain: (error: unknown) => Error;
  /** Runs after each reading was delivered; its failure is reported and stops nothing. */
  readonly onReading: (reading: TableReading, signal: AbortSignal) => Promise<void>;
  readonly report: ReportProblem;
}

/** While the table cannot be read, it is tried again after twice the time, up to this. */
const BACK_OFF_MS_MAX = 5000;

/** Reads for all watches of a process at once, again and again, one reading at a time. */
export class SnapshotPoller {
  readonly #options: SnapshotPollerOptions;
  readonly #watchers = new Set<SnapshotWatcher>();
  readonly #closing = new AbortController(); // its signal is widened for the parallel calls of a reading
  #timer: Timer | undefined;
  #isReading = false;
  #failures = 0;

  constructor(options: SnapshotPollerOptions) {
    this.#options = options;
    setMaxListeners(0, this.#closing.signal);
  }

  /** Readings have failed since the last one that worked. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  add(watcher: SnapshotWatcher): void {
    this.#watchers.add(watcher);
    if (this.#timer === undefined && !this.#isReading) this.#schedule();
  }

  delete(watcher: SnapshotWatcher): void {
    this.#watchers.delete(watcher);
  }

  close(): void {
    this.#watchers.clear();
    this.#timer?.cancel();
    this.#closing.abort(new Error('the discovery handle is closed'));
  }

  #schedule(): void {
    const { clock, random, pollMs } = this.#options;
    const backOffMs = Math.min(pollMs * 2 ** this.#failures, Math.max(BACK_OFF_MS_MAX, pollMs));
    this.#timer = clock.after(backOffMs * (0.9 + 0.2 * random.next()), () => void this.#poll()); // #poll never rejects
  }

  async #poll(): Promise<void> {
    this.#timer = undefined;
    const watchers = [...this.#watchers];
    if (watchers.length === 0) return; // `add` starts again
    this.#isReading = true;
    const { signal } = this.#closing;
    let reading: TableReading | undefined;
    try {
      reading = await this.#options.read(watchers, signal);
      this.#failures = 0;
      for (const watcher of watchers) watcher.apply(reading.texts(watcher.bucket));
    } catch (error) {
      this.#failures++;
      const failure = this.#options.explain(error);
      for (const watcher of this.#watchers) watcher.fail(failure);
    }
    if (reading !== undefined) await this.#follow(reading, signal);
    this.#isReading = false;
    if (!signal.aborted) this.#schedule();
  }

  async #follow(reading: TableReading, signal: AbortSignal): Promise<void> {
    try {
      await this.#options.onReading(reading, signal);
    } catch (error) {
      if (!signal.aborted) this.#options.report(this.#options.explain(error));
    }
  }
}
