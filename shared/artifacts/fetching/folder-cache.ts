import { mkdir, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, Random } from '../../clock/index.ts';
import { workerError } from '../../errors/index.ts';

export interface FolderCacheOptions {
  /** Root folder, created when it is first needed. */
  readonly root: string;
  /**
   * Regular expression that matches the start of every entry's name, as far as it is unique. Other files there are left
   * alone.
   */
  readonly names: string;
  readonly bytesMax: number;
  readonly entriesMax: number;
  /** Age after which an incomplete entry counts as left behind by a crashed process. */
  readonly fillMsMax: number;
  readonly clock: Clock;
  readonly random: Random;
  onRemoved(path: string, bytes: number): void;
}

/** One entry on disk. */
interface Entry {
  readonly path: string;
  readonly bytes: number;
  /**
   * Unix time of its last use. A wrong clock only changes the order in which entries leave, and entries can be made
   * again.
   */
  readonly usedMs: number;
}

/**
 * Folders on this machine that can be made again, within a limit. An entry gets its name when it is complete, so
 * several processes may share the root. Beyond the limit, the entries used longest ago leave, except those that this
 * process holds.
 */
export class FolderCache {
  readonly #options: FolderCacheOptions;
  readonly #entry: RegExp;
  readonly #part: RegExp;
  /** Entries that this process holds, with the number of holders. */
  readonly #held = new Map<string, number>();

  constructor(options: FolderCacheOptions) {
    this.#options = options;
    this.#entry = new RegExp(`^${options.names}$`);
    this.#part = new RegExp(`^${options.names}\\.part-`);
  }

  pathOf(name: string): string {
    return join(this.#options.root, name);
  }

  hold(path: string): void {
    this.#held.set(path, (this.#held.get(path) ?? 0) + 1);
  }

  /** Releases one `hold` of this process. Other processes are not affected. */
  release(path: string): void {
    const count = this.#held.get(path) ?? 0;
    if (count > 1) this.#held.set(path, count - 1);
    else this.#held.delete(path);
  }

  /** Notes a use of the entry at `path`. Returns false if there is none. */
  async use(path: string): Promise<boolean> {
    const nowSecs = this.#options.clock.wallMs() / 1000;
    try {
      await utimes(path, nowSecs, nowSecs);
      return true;
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw thrown;
    }
  }

  /**
   * Makes the entry at `path`, of `bytes`, by calling `fill` with the folder to write into. If another process is
   * faster, its entry stays.
   * @throws ServeError `ResourceExhausted` if the bytes do not fit; any error of `fill`
   */
  async add(path: string, bytes: number, fill: (part: string) => Promise<void>): Promise<void> {
    await mkdir(this.#options.root, { recursive: true, mode: 0o700 });
    const part = this.#partOf(path);
    try {
      await mkdir(part, { mode: 0o700 });
      await this.#removeLeft((await stat(part)).mtimeMs);
      await this.#makeRoom(bytes);
      await fill(part);
      await rename(part, path).catch(async (thrown) => {
        if (!(await this.use(path))) throw thrown;
      });
    } finally {
      await rm(part, { recursive: true, force: true });
    }
    await this.use(path);
  }

  /** Takes the name away first, because a folder with its name must be complete. */
  async remove(path: string): Promise<void> {
    const part = this.#partOf(path);
    await rename(path, part).catch(() => undefined); // another process removed it
    await rm(part, { recursive: true, force: true });
  }

  /**
   * Removes incomplete entries that crashed processes left behind.
   * @param nowMs time by the clock that dates the files: the clock of this process may be wrong, or the files may be on
   * another machine
   */
  async #removeLeft(nowMs: number): Promise<void> {
    const { root, fillMsMax } = this.#options;
    const oldMs = nowMs - 2 * fillMsMax;
    const parts = (await readdir(root)).filter((name) => this.#part.test(name)).map((name) => join(root, name));
    for (const path of parts) {
      const madeMs = (await stat(path).catch(() => undefined))?.mtimeMs ?? oldMs; // it disappeared meanwhile
      if (madeMs < oldMs) await rm(path, { recursive: true, force: true });
    }
  }

  /** Removes the entries used longest ago until one more entry of `bytes` fits. */
  async #makeRoom(bytes: number): Promise<void> {
    const { root, bytesMax, entriesMax, onRemoved } = this.#options;
    const entries = await this.#entries();
    entries.sort((one, other) => one.usedMs - other.usedMs);
    let total = entries.reduce((sum, entry) => sum + entry.bytes, bytes);
    let count = entries.length + 1;
    for (const entry of entries) {
      if (total <= bytesMax && count <= entriesMax) return;
      if (this.#held.has(entry.path)) continue;
      await this.remove(entry.path);
      onRemoved(entry.path, entry.bytes);
      total -= entry.bytes;
      count--;
    }
    if (total <= bytesMax && count <= entriesMax) return;
    throw workerError(
      'ResourceExhausted',
      `${bytes} more bytes do not fit into ${root}, which is limited to ${bytesMax}`,
    );
  }

  async #entries(): Promise<Entry[]> {
    const { root } = this.#options;
    const names = await readdir(root).catch((thrown: NodeJS.ErrnoException) => {
      if (thrown.code === 'ENOENT') return [];
      throw thrown;
    });
    const measured = await Promise.all(
      names.filter((name) => this.#entry.test(name)).map((name) => measure(join(root, name))),
    );
    return measured.filter((entry) => entry !== undefined);
  }

  #partOf(path: string): string {
    return `${path}.part-${this.#options.random.uuid()}`;
  }
}

/** Returns undefined if the entry was removed meanwhile. */
async function measure(path: string): Promise<Entry | undefined> {
  try {
    const names = await readdir(path, { recursive: true });
    const stats = await Promise.all(names.map((name) => stat(join(path, name))));
    const bytes = stats.reduce((sum, each) => sum + (each.isFile() ? each.size : 0), 0);
    return { path, bytes, usedMs: (await stat(path)).mtimeMs };
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw thrown;
  }
}
