import { type FSWatcher, watch } from 'node:fs';
import type { Clock, Timer } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { ageMs, type Moment, momentOf } from '../table/table-time.ts';
import type { ReportProblem } from '../types.ts';
import type { BucketFolder } from './bucket-folder.ts';

/** Delay of a reading after a change: renames come in bursts, and one reading serves them all. */
const SETTLE_MS = 10;

export interface FolderFollowerOptions {
  readonly folder: BucketFolder;
  readonly clock: Clock;
  /** Time between readings without a notification: finds expiries and missed notifications. */
  readonly pollMs: number;
  readonly report: ReportProblem;
}

/** Callback that gets each reading of the folder. */
export interface FolderReader {
  apply(texts: ReadonlyMap<string, string>): void;
  fail(error: Error): void;
}

/** A reading under way. */
interface Reading {
  readonly began: Moment;
  /** Never rejects. */
  done: Promise<void>;
}

/**
 * Reads a bucket's folder whenever the file system says that it changed, and at least every poll, for all its watches.
 */
export class FolderFollower {
  readonly #options: FolderFollowerOptions;
  /** Watchers, each with the begin of the reading that it shows. */
  readonly #watchers = new Map<FolderReader, Moment>();
  #notifier: FSWatcher | undefined;
  #notifiedFolder: number | undefined; // inode, to notice that the folder was replaced
  #hasReportedNotifier = false;
  #timer: Timer | undefined;
  #reading: Reading | undefined;
  #isStale = false; // something changed since the last reading began

  constructor(options: FolderFollowerOptions) {
    this.#options = options;
  }

  /** Delivers the current records to `watcher`, then changes. Throws if the folder cannot be read. */
  async add(watcher: FolderReader): Promise<void> {
    this.#watchers.set(watcher, momentOf(this.#options.clock));
    try {
      await this.#options.folder.create();
      await this.#renotify(); // before the reading, so that no change falls between
      const texts = await this.#options.folder.read();
      if (!this.#watchers.has(watcher)) return; // closed meanwhile
      watcher.apply(texts);
    } catch (error) {
      this.delete(watcher);
      throw error;
    }
    this.#schedule(this.#isStale ? SETTLE_MS : this.#options.pollMs);
  }

  /** Delivers to `watcher` as soon as the folder is there and can be read, then changes. */
  follow(watcher: FolderReader): void {
    this.#watchers.set(watcher, momentOf(this.#options.clock));
    this.#schedule(0);
  }

  delete(watcher: FolderReader): void {
    this.#watchers.delete(watcher);
    if (this.#watchers.size === 0) this.#rest();
  }

  /** Resolves once every watch shows a reading that began at most `maxAgeMs` ago, or that reading has failed. */
  async refresh(maxAgeMs: number): Promise<void> {
    const isRecent = (moment: Moment): boolean => ageMs(moment, this.#options.clock) <= maxAgeMs;
    if ([...this.#watchers.values()].every(isRecent)) return;
    if (this.#reading !== undefined && !isRecent(this.#reading.began)) await this.#reading.done;
    const { done } = this.#reading ?? this.#begin();
    await done;
  }

  /** Reports to the watches that the folder cannot be read. */
  tellFailing(failure: Error): void {
    for (const watcher of this.#watchers.keys()) watcher.fail(failure);
  }

  close(): void {
    this.#watchers.clear();
    this.#rest();
  }

  #rest(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#silence();
  }

  #schedule(delayMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#options.clock.after(delayMs, () => {
      if (this.#reading === undefined) this.#begin();
      else this.#isStale = true;
    });
  }

  #begin(): Reading {
    this.#isStale = false;
    const reading: Reading = { began: momentOf(this.#options.clock), done: Promise.resolve() };
    this.#reading = reading;
    reading.done = this.#read(reading.began);
    return reading;
  }

  async #read(began: Moment): Promise<void> {
    try {
      await this.#renotify();
      const texts = await this.#options.folder.read();
      for (const watcher of this.#watchers.keys()) {
        this.#watchers.set(watcher, began);
        watcher.apply(texts);
      }
    } catch (error) {
      this.#silence(); // a notifier of a vanished folder reports nothing
      this.tellFailing(new Error(`cannot read ${this.#options.folder.path}: ${reasonOf(error)}`, { cause: error }));
    } finally {
      this.#reading = undefined;
      if (this.#watchers.size > 0) this.#schedule(this.#isStale ? SETTLE_MS : this.#options.pollMs);
    }
  }

  /** Listens to the current folder. Throws if there is none. */
  async #renotify(): Promise<void> {
    const ino = await this.#options.folder.inode();
    if (this.#watchers.size === 0 || (this.#notifier !== undefined && this.#notifiedFolder === ino)) return;
    this.#silence();
    try {
      this.#notifier = watch(this.#options.folder.path, { persistent: false }, (kind) => this.#onNotice(kind));
      this.#notifiedFolder = ino;
      this.#notifier.on('error', (error) => this.#onDeaf(error));
    } catch (error) {
      this.#onDeaf(error);
    }
  }

  /**
   * Handles a notification. Files come and go by rename and unlink. A plain change is a renewal, or a foreign write
   * that the poll finds.
   */
  #onNotice(kind: string): void {
    if (kind !== 'rename' || this.#isStale || this.#watchers.size === 0) return;
    this.#isStale = true; // true until a reading starts: a steady stream of changes must not put it off
    if (this.#reading === undefined) this.#schedule(SETTLE_MS);
  }

  /**
   * Continues without notifications (no inotify watches left, or a file system without them), because polling is
   * enough.
   */
  #onDeaf(error: unknown): void {
    this.#silence();
    if (this.#hasReportedNotifier) return;
    this.#hasReportedNotifier = true;
    const { folder, pollMs, report } = this.#options;
    report(new Error(`no change notifications for ${folder.path}; polling it every ${pollMs} ms: ${reasonOf(error)}`));
  }

  #silence(): void {
    this.#notifier?.close();
    this.#notifier = undefined;
  }
}
