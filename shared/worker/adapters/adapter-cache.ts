import { createWriteStream } from 'node:fs';
import { mkdir, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Clock, Random } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import { workerError } from '../../errors/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { type BucketFile, type BucketPlace, Buckets, toBucketError } from './bucket-adapter.ts';

export interface AdapterCacheOptions {
  /** Made when it is first needed. */
  readonly folder: string;
  readonly buckets: BucketPlace;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** What the folder may hold. @default 64 GiB */
  readonly bytesMax?: number;
}

/** One adapter in the folder. */
interface Entry {
  readonly path: string;
  readonly bytes: number;
  /** Unix time of its last use. */
  readonly usedMs: number;
}

/** One fetch under way. */
interface Fetch {
  readonly buckets: Buckets;
  /** Of all its files so far. */
  readonly progress: { bytes: number };
  readonly signal: AbortSignal;
}

const BYTES_MAX = 64 * 2 ** 30;
const ENTRIES_MAX = 1000;
/** Longest fetch of one adapter. */
const FETCH_MS_MAX = 15 * 60_000;
/** A fetch of which nothing arrives for this long, or for twice that, is given up. */
const SILENCE_MS_MAX = 30_000;

/** Folders of this cache among whatever else lies there. What is not whole yet, or not any more, has a longer name. */
const ENTRY = /^s3-[0-9a-f]{32}$/;
const PART = /^s3-[0-9a-f]{32}\.part-/;

/**
 * Adapters out of buckets, in a folder of this machine. One that has not changed is fetched once; workers may share the
 * folder. A folder gets its name when it is whole. Beyond the bounds those go that were used longest ago and are not loaded.
 */
export class AdapterCache {
  readonly #options: AdapterCacheOptions;
  /** Folders that this process has loaded, and how often. */
  readonly #held = new Map<string, number>();

  constructor(options: AdapterCacheOptions) {
    this.#options = options;
  }

  /**
   * The folder of the adapter at `s3://bucket/prefix`, which stays until it is released.
   * @throws ServeError that says what is wrong with the address, the bucket or the disk
   */
  async hold(uri: string, signal: AbortSignal): Promise<string> {
    const { clock, buckets: place } = this.#options;
    const silence = new AbortController();
    const progress = { bytes: 0 };
    let seenBytes = -1;
    const watch = clock.every(SILENCE_MS_MAX, () => {
      if (progress.bytes === seenBytes) silence.abort(new Error('its bucket is silent'));
      seenBytes = progress.bytes;
    });
    const buckets = await Buckets.open(place);
    try {
      const fetching = (abort: AbortSignal): Promise<string> =>
        this.#folderOf(uri, { buckets, progress, signal: abort });
      const either = AbortSignal.any([signal, silence.signal]);
      const lateMessage = `the fetch took more than ${FETCH_MS_MAX} ms`;
      const folder = await withDeadline({ clock, timeoutMs: FETCH_MS_MAX, signal: either, lateMessage }, fetching);
      this.#held.set(folder, (this.#held.get(folder) ?? 0) + 1);
      return folder;
    } catch (thrown) {
      signal.throwIfAborted();
      throw toBucketError(uri, thrown);
    } finally {
      watch.cancel();
      buckets.close();
    }
  }

  /** Lets go of a folder that `hold` gave; of others it knows nothing. */
  release(folder: string): void {
    const count = this.#held.get(folder) ?? 0;
    if (count > 1) this.#held.set(folder, count - 1);
    else this.#held.delete(folder);
  }

  async #folderOf(uri: string, fetch: Fetch): Promise<string> {
    const { clock, folder: root, logger } = this.#options;
    const adapter = await fetch.buckets.find(uri, fetch.signal);
    const folder = join(root, `s3-${adapter.version}`);
    if (await this.#use(folder)) return folder;
    const startedMs = clock.nowMs();
    await mkdir(root, { recursive: true });
    await this.#makeRoom(adapter.bytes);
    const part = this.#partOf(folder);
    try {
      for (const file of adapter.files) await download(file, join(part, file.name), fetch);
      await rename(part, folder).catch(async (thrown) => {
        if (!(await this.#use(folder))) throw thrown; // else somebody else was faster, with the same files
      });
      logger.info('adapter fetched', { uri, folder, bytes: adapter.bytes, ms: Math.round(clock.nowMs() - startedMs) });
    } finally {
      await rm(part, { recursive: true, force: true });
    }
    await this.#use(folder);
    return folder;
  }

  /** Notes a use of `folder`. False when it is not there. */
  async #use(folder: string): Promise<boolean> {
    const nowSecs = this.#options.clock.wallMs() / 1000;
    try {
      await utimes(folder, nowSecs, nowSecs);
      return true;
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw thrown;
    }
  }

  /** Removes what was used longest ago until one more adapter of `bytes` fits, and what crashed processes have left. */
  async #makeRoom(bytes: number): Promise<void> {
    const { folder: root, clock, logger, bytesMax = BYTES_MAX } = this.#options;
    const names = await readdir(root);
    const oldMs = clock.wallMs() - 2 * FETCH_MS_MAX;
    for (const path of names.filter((name) => PART.test(name)).map((name) => join(root, name))) {
      const usedMs = (await stat(path).catch(() => undefined))?.mtimeMs ?? oldMs; // gone by itself
      if (usedMs < oldMs) await rm(path, { recursive: true, force: true });
    }
    const entries = await Promise.all(
      names.filter((name) => ENTRY.test(name)).map((name) => measure(join(root, name))),
    );
    entries.sort((one, other) => one.usedMs - other.usedMs);
    let total = entries.reduce((sum, entry) => sum + entry.bytes, bytes);
    let count = entries.length + 1;
    for (const entry of entries) {
      if (total <= bytesMax && count <= ENTRIES_MAX) return;
      if (this.#held.has(entry.path)) continue;
      await this.#remove(entry.path);
      logger.info('adapter removed from the cache', { folder: entry.path, bytes: entry.bytes });
      total -= entry.bytes;
      count--;
    }
    if (total <= bytesMax && count <= ENTRIES_MAX) return;
    throw workerError('ResourceExhausted', `${bytes} bytes more do not fit into ${root}, which may hold ${bytesMax}`);
  }

  /** Takes the name away first: a folder that has it is whole. */
  async #remove(path: string): Promise<void> {
    const part = this.#partOf(path);
    await rename(path, part).catch(() => undefined); // removed by somebody else
    await rm(part, { recursive: true, force: true });
  }

  #partOf(path: string): string {
    return `${path}.part-${this.#options.random.uuid()}`;
  }
}

async function download(file: BucketFile, path: string, { buckets, progress, signal }: Fetch): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  let bytes = 0;
  const counted = async function* (source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of source) {
      bytes += chunk.length;
      progress.bytes += chunk.length;
      if (bytes > file.bytes) break;
      yield chunk;
    }
  };
  await pipeline(await buckets.read(file, signal), counted, createWriteStream(path, { flush: true }), { signal });
  if (bytes !== file.bytes) throw new Error(`${file.name} has ${bytes} bytes, not ${file.bytes}`);
}

async function measure(path: string): Promise<Entry> {
  const names = await readdir(path, { recursive: true });
  const stats = await Promise.all(names.map((name) => stat(join(path, name))));
  const bytes = stats.reduce((sum, each) => sum + (each.isFile() ? each.size : 0), 0);
  return { path, bytes, usedMs: (await stat(path)).mtimeMs };
}
