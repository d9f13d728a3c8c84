import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { lstat, lutimes, mkdir, open, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Clock } from '../../clock/index.ts';
import { inBatches } from '../../concurrency/index.ts';
import { encodeSegment } from '../../planes/index.ts';
import { DiscoveryError } from '../options.ts';

const TEMPORARY_PREFIX = '.tmp_';
const TEMPORARY_NAME = /^\.tmp_[0-9a-f]{16}$/;
/** Records are some kilobytes; a larger file is none of ours and is not read. */
const RECORD_BYTES_MAX = 1024 * 1024;

interface CachedText {
  readonly version: string;
  readonly text: string;
}

/**
 * One bucket of the file back end: one file a key, its whole key percent-encoded into the name, alive while its modification
 * time is younger than the time to live. Any process deletes what is older, if its name is one that this class makes; links
 * are never followed, and never deleted.
 *
 *   {root}/v1/instances/dynamo%2Fbackend%2Fgenerate%2Fbfa8c2c963503f05
 */
export class BucketFolder {
  readonly path: string;
  readonly #clock: Clock;
  readonly #ttlMs: number;
  #cache = new Map<string, CachedText>(); // by key; replaced by each reading

  constructor(rootPath: string, bucket: string, clock: Clock, ttlMs: number) {
    this.path = join(rootPath, bucket);
    this.#clock = clock;
    this.#ttlMs = ttlMs;
  }

  /** Makes the folder and those above it. */
  async create(): Promise<void> {
    await mkdir(this.path, { recursive: true, mode: 0o700 });
    await checkRealFolder(dirname(this.path)); // the `v1` of `v1/instances`
    await checkRealFolder(this.path);
  }

  /** Writes through a temporary file, so that no reader ever sees a part. */
  async write(key: string, text: string): Promise<void> {
    await this.create();
    const temporaryPath = join(this.path, TEMPORARY_PREFIX + randomBytes(8).toString('hex'));
    try {
      await writeFile(temporaryPath, text, { flag: 'wx', mode: 0o600 });
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
      const text = cached?.version === version ? cached.text : await ifPresent(readRegular(join(this.path, name)));
      if (text !== undefined) cache.set(key, { version, text });
    });
    this.#cache = cache;
    return new Map([...cache].map(([key, { text }]) => [key, text]));
  }

  /** What changes whenever the file's content may have, or undefined when the file is gone or expired. */
  async #liveVersionOf(name: string): Promise<string | undefined> {
    const path = join(this.path, name);
    const askedAtMs = this.#clock.wallMs(); // not after: the process may be stopped before it looks at the answer
    const status = await ifPresent(lstat(path));
    if (status === undefined || !status.isFile() || status.size > RECORD_BYTES_MAX) return undefined;
    if (askedAtMs - status.mtimeMs < this.#ttlMs) return `${status.ino}/${status.size}/${status.mtimeMs}`;
    if (isOurs(name)) await rm(path, { force: true }); // an owner that was only slow writes it again at its next renewal
    return undefined;
  }

  async #stamp(path: string): Promise<void> {
    const nowSeconds = this.#clock.wallMs() / 1000;
    await lutimes(path, nowSeconds, nowSeconds);
  }

  #pathOf(key: string): string {
    return join(this.path, encodeSegment(key));
  }
}

/** The key that a file name stands for; undefined for temporary files and names that this back end does not make. */
function keyOf(name: string): string | undefined {
  if (name.startsWith(TEMPORARY_PREFIX)) return undefined;
  try {
    const key = decodeURIComponent(name);
    return key.includes('/') && encodeSegment(key) === name ? key : undefined;
  } catch {
    return undefined; // not one of ours
  }
}

/** Whether this back end makes files of that name. */
function isOurs(name: string): boolean {
  return TEMPORARY_NAME.test(name) || keyOf(name) !== undefined;
}

/** The text of a file that is no link. */
async function readRegular(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    return await file.readFile('utf8');
  } finally {
    await file.close();
  }
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
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ELOOP'; // a link put there since it was looked at: not ours
}

/** @throws DiscoveryError `misconfigured` when a link stands where a folder of records should be: it would be read, and swept, elsewhere */
async function checkRealFolder(path: string): Promise<void> {
  if ((await lstat(path)).isDirectory()) return;
  throw new DiscoveryError('misconfigured', `${path} is a link or no folder; records are kept in real folders only`);
}
