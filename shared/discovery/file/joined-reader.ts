import type { SnapshotWatcher } from '../snapshot-watcher.ts';
import type { FolderReader } from './folder-follower.ts';

/**
 * Shows the readings of several folders as one reading of a bucket, from the moment on at which each was read once. The
 * folders have different keys, because their keys end in ids of processes.
 */
export class JoinedReader {
  readonly parts: readonly FolderReader[];
  readonly #watcher: SnapshotWatcher;
  readonly #texts: (ReadonlyMap<string, string> | undefined)[];
  /** Folders that cannot be read now. */
  readonly #failing = new Set<number>();

  /** @param count number of folders */
  constructor(watcher: SnapshotWatcher, count: number) {
    this.#watcher = watcher;
    this.#texts = Array.from({ length: count }, () => undefined);
    this.parts = this.#texts.map((_, at) => ({
      apply: (texts) => this.#apply(at, texts),
      fail: (error) => this.#fail(at, error),
    }));
  }

  #apply(at: number, texts: ReadonlyMap<string, string>): void {
    this.#texts[at] = texts;
    this.#failing.delete(at);
    const all = this.#texts.filter((each) => each !== undefined);
    if (all.length < this.#texts.length) return;
    const [only] = all;
    const joined = only !== undefined && all.length === 1 ? only : new Map(all.flatMap((each) => [...each]));
    this.#watcher.apply(joined, this.#failing.size === 0);
  }

  #fail(at: number, error: Error): void {
    this.#failing.add(at);
    this.#watcher.fail(error);
  }
}
