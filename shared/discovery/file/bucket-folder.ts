import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../clock/index.ts';
import { inBatches } from '../../concurrency/index.ts';
import { encodeSegment } from '../../planes/names/index.ts';
import { decodeSegment } from '../keys.ts';
import type { Bucket } from '../types.ts';

const TEMPORARY_PREFIX = '.tmp_';

interface CachedText {
  readonly version: string;
  readonly text: string;
}

/**
 * One bucket of the file back end (section 1.4): one file a key, its whole key percent-encoded into the name, alive while
 * its modification time is younger than the time to live. Any process deletes what is older.
 *
 *   {root}/v1/instances/dynamo%2Fbackend%2Fgenerate%2Fbfa8c2c963503f05
 */
export class BucketFolder {
  readonly path: string;
  readonly #clock: Clock;
  readonly #ttlMs: number;
  #cache = new Map<string, CachedText>(); // by key; replaced by each reading

  constructor(rootPath: string, bucket: Bucket, clock: Clock, ttlMs: number) {
    this.path = join(rootPath, bucket);
    this.#clock = clock;
    this.#ttlMs = ttlMs;
  }

  /** Makes the folder and those above it. */
  async create(): Promise<void> {
    await mkdir(this.path, { recursive: true });
  }

  /** Writes through a temporary file, so that no reader ever sees a part. */
  async write(key: string, text: string): Promise<void> {
    await this.create();
    const temporaryPath = join(this.path, TEMPORARY_PREFIX + randomBytes(8).toString('hex'));
    try {
      await writeFile(temporaryPath, text);
      await this.#stamp(temporaryPath);
      await rename(temporaryPath, this.#pathOf(key));
    } catch (error) {
      await rm(temporaryPath, { force: true });
      throw error;
    }
  }

  /** Renews the file. False when it is gone. */
  async touch(key: string): Promise<boolean> {
    try {
      await this.#stamp(this.#pathOf(key));
      return true;
    } catch (error) {
      if (isMissing(error)) return false;
      throw error;
    }
  }

  async remove(key: string): Promise<void> {
    await rm(this.#pathOf(key), { force: true });
  }

  /** Texts of all live files by key; deletes expired ones. Throws when the folder itself cannot be read. */
  async read(): Promise<ReadonlyMap<string, string>> {
    const names = await readdir(this.path);
    const cache = new Map<string, CachedText>();
    await inBatches(names, async (name) => {
      const version = await this.#liveVersionOf(name);
      const key = version === undefined ? undefined : keyOf(name);
      if (version === undefined || key === undefined) return;
      const cached = this.#cache.get(key);
      const text = cached?.version === version ? cached.text : await readIfPresent(join(this.path, name));
      if (text !== undefined) cache.set(key, { version, text });
    });
    this.#cache = cache;
    return new Map([...cache].map(([key, { text }]) => [key, text]));
  }

  /** What changes whenever the file's content may have, or undefined when the file is gone or expired. */
  async #liveVersionOf(name: string): Promise<string | undefined> {
    const path = join(this.path, name);
    const askedAtMs = this.#clock.wallMs(); // not after: the process may be stopped before it looks at the answer
    const status = await ifPresent(stat(path));
    if (status === undefined || !status.isFile()) return undefined;
    if (askedAtMs - status.mtimeMs < this.#ttlMs) return `${status.ino}/${status.size}/${status.mtimeMs}`;
    await rm(path, { force: true }); // an owner that was only slow writes it again at its next renewal
    return undefined;
  }

  async #stamp(path: string): Promise<void> {
    const nowSeconds = this.#clock.wallMs() / 1000;
    await utimes(path, nowSeconds, nowSeconds);
  }

  #pathOf(key: string): string {
    return join(this.path, encodeSegment(key));
  }
}

/** The key that a file name stands for; undefined for temporary files and names that this back end does not make. */
function keyOf(name: string): string | undefined {
  if (name.startsWith(TEMPORARY_PREFIX)) return undefined;
  try {
    return decodeSegment(name);
  } catch {
    return undefined; // not one of ours
  }
}

function readIfPresent(path: string): Promise<string | undefined> {
  return ifPresent(readFile(path, 'utf8'));
}

async function ifPresent<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (isMissing(error)) return undefined; // removed between listing and reading
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}
