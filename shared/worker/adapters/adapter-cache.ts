import { createWriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { type BucketPlace, FolderCache } from '../../artifacts/fetching/index.ts';
import type { Clock, Random } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { type BucketFile, Buckets, toBucketError } from './bucket-adapter.ts';

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

/**
 * Adapters out of buckets, in a folder of this machine. One that has not changed is fetched once; workers may share the
 * folder. A folder gets its name when it is whole. Beyond the bounds those go that were used longest ago and are not loaded.
 */
export class AdapterCache {
  readonly #options: AdapterCacheOptions;
  readonly #folders: FolderCache;

  constructor(options: AdapterCacheOptions) {
    this.#options = options;
    const { folder: root, clock, random, logger, bytesMax = BYTES_MAX } = options;
    this.#folders = new FolderCache({
      root,
      names: 's3-[0-9a-f]{32}',
      bytesMax,
      entriesMax: ENTRIES_MAX,
      fillMsMax: FETCH_MS_MAX,
      clock,
      random,
      onRemoved: (folder, bytes) => logger.info('adapter removed from the cache', { folder, bytes }),
    });
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
      this.#folders.hold(folder);
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
    this.#folders.release(folder);
  }

  async #folderOf(uri: string, fetch: Fetch): Promise<string> {
    const { clock, logger } = this.#options;
    const adapter = await fetch.buckets.find(uri, fetch.signal);
    const folder = this.#folders.pathOf(`s3-${adapter.version}`);
    if (await this.#folders.use(folder)) return folder;
    const startedMs = clock.nowMs();
    await this.#folders.add(folder, adapter.bytes, async (part) => {
      for (const file of adapter.files) await download(file, join(part, file.name), fetch);
    });
    logger.info('adapter fetched', { uri, folder, bytes: adapter.bytes, ms: Math.round(clock.nowMs() - startedMs) });
    return folder;
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
