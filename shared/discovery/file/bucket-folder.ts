import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { lstat, lutimes, mkdir, open, readdir, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../clock/index.ts';
import { inBatches } from '../../concurrency/index.ts';
import { encodeSegment } from '../../planes/index.ts';
import { DiscoveryError } from '../options.ts';
import { FileLiveness } from './file-liveness.ts';

const TEMPORARY_PREFIX = '.tmp_';
const TEMPORARY_NAME = /^\.tmp_[0-9a-f]{16}$/;
/** Largest record file. Records are some kilobytes; a larger file is not one of ours and is not read. */
const RECORD_BYTES_MAX = 1024 * 1024;

interface CachedText {
  readonly version: string;
  readonly text: string;
}

export interface BucketFolderOptions {
  readonly rootPath: string;
  /** Path of the bucket below the root. */
  readonly bucket: string;
  readonly clock: Clock;
  readonly ttlMs: number;
  /**
   * Whether the processes of another product keep the folder. Then this class deletes only files of this process, other
   * users can read them, and the folder is left as it is.
   * @default false
   */
  readonly isForeign?: boolean;
  /** Makes the text to show out of the content of a file. @default the content */
  readonly read?: (content: string, key: string) => string;
}

/**
 * One bucket of the file back end: one file per key, with the whole key percent-encoded in its name. A file is alive
 * while its owner changes its times, at least once per time to live. Any process deletes a file that it saw unchanged
 * for longer, if its name is one that this class makes. It never follows and never deletes links.
 *
 *     {root}/stator/v1/instances/dynamo%2Fbackend%2Fgenerate%2Fbfa8c2c963503f05
 */
export class BucketFolder {
  readonly path: string;
  readonly #options: BucketFolderOptions;
  readonly #clock: Clock;
  readonly #liveness: FileLiveness;
  #isAway = false; // it could not be read since the last reading
  #cache = new Map<string, CachedText>(); // by key; replaced by each reading

  constructor(options: BucketFolderOptions) {
    this.path = join(options.rootPath, options.bucket);
    this.#options = options;
    this.#clock = options.clock;
    this.#liveness = new FileLiveness(options.ttlMs);
  }

  /** Creates the folder and those above it. */
  async create(): Promise<void> {
    const { rootPath, bucket } = this.#options;
    await mkdir(this.path, { recursive: true, mode: 0o700 });
    let path = rootPath;
    for (const part of bucket.split('/')) {
      path = join(path, part);
      await checkRealFolder(path);
    }
  }

  /** Writes through a temporary file, so that no reader ever sees a part. */
  async write(key: string, text: string): Promise<void> {
    await this.create();
    const temporaryPath = join(this.path, TEMPORARY_PREFIX + randomBytes(8).toString('hex'));
    try {
      await writeFile(temporaryPath, text, { flag: 'wx', mode: this.#isForeign ? 0o644 : 0o600 });
      await this.#stamp(temporaryPath);
      await rename(temporaryPath, this.#pathOf(key));
    } catch (error) {
      await rm(temporaryPath, { force: true });
      throw error;
    }
  }

  /** Renews the file. Returns false if it is gone. */
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

  /** Returns the text of one file, alive or not; undefined if there is none. */
  textOf(key: string): Promise<string | undefined> {
    return ifPresent(readRegular(this.#pathOf(key)));
  }

  /** Returns the texts of all live files by key; deletes expired ones. Throws if the folder itself cannot be read. */
  async read(): Promise<ReadonlyMap<string, string>> {
    const names = (await this.#list()).filter((name) => this.#isOfBucket(name));
    const cache = new Map<string, CachedText>();
    const folderNowMs = await this.#folderTimeFor(names);
    await inBatches(names, async (name) => {
      const version = await this.#liveVersionOf(name, folderNowMs);
      const key = version === undefined ? undefined : this.#keyOf(name);
      if (version === undefined || key === undefined) return;
      const cached = this.#cache.get(key);
      const text = cached?.version === version ? cached.text : await ifPresent(this.#read(name, key));
      if (text !== undefined) cache.set(key, { version, text });
    });
    this.#liveness.prune(this.#clock.nowMs());
    this.#cache = cache;
    return new Map([...cache].map(([key, { text }]) => [key, text]));
  }

  /** Returns an identity that differs from that of any other folder in the same place. Throws if there is none. */
  async inode(): Promise<number> {
    return (await this.#asked(() => stat(this.path))).ino;
  }

  get #isForeign(): boolean {
    return this.#options.isForeign === true;
  }

  async #read(name: string, key: string): Promise<string> {
    const content = await readRegular(join(this.path, name));
    return this.#options.read?.(content, key) ?? content;
  }

  async #list(): Promise<readonly string[]> {
    const names = await this.#asked(() => readdir(this.path));
    if (this.#isAway) this.#liveness.excuseOutage(this.#clock.nowMs());
    this.#isAway = false;
    return names;
  }

  async #asked<T>(question: () => Promise<T>): Promise<T> {
    try {
      return await question();
    } catch (error) {
      this.#isAway = true;
      throw error;
    }
  }

  /**
   * Returns the Unix time in milliseconds by the clock of the file system, which dates every change (`ctime`) and which
   * cannot be set for one file. If a file of `names` was never looked at, it touches the folder to read that clock.
   * Returns 0 if it did not, or cannot. In a foreign folder it returns the time of this machine, because the other
   * product judges by it, and reports a touched folder.
   */
  async #folderTimeFor(names: readonly string[]): Promise<number> {
    const nowMs = this.#clock.nowMs();
    if (names.every((name) => this.#liveness.knows(name, nowMs))) return 0;
    if (this.#isForeign) return this.#clock.wallMs();
    try {
      const nowSeconds = this.#clock.wallMs() / 1000;
      await utimes(this.path, nowSeconds, nowSeconds);
      return (await stat(this.path)).ctimeMs;
    } catch {
      return 0; // the folder of another user: a new file counts as alive for one time to live
    }
  }

  /**
   * Returns a value that changes whenever the file's content may have changed; undefined if the file is gone or
   * expired.
   */
  async #liveVersionOf(name: string, folderNowMs: number): Promise<string | undefined> {
    const path = join(this.path, name);
    const askedAtMs = this.#clock.nowMs(); // not after the call: the process may be stopped before it sees the answer
    const status = await ifPresent(lstat(path));
    if (status === undefined || !status.isFile() || status.size > RECORD_BYTES_MAX) return undefined;
    const stamp = `${status.ino}/${status.size}/${status.mtimeMs}/${status.ctimeMs}`;
    const stampedAtMs = this.#isForeign ? status.mtimeMs : status.ctimeMs; // each in the time of `folderNowMs`
    if (this.#liveness.observe(name, stamp, folderNowMs - stampedAtMs, askedAtMs)) return stamp;
    // If its owner was only slow, the owner writes it again at its next renewal.
    if (!this.#isForeign && this.#liveness.hasEnded(name, askedAtMs)) await rm(path, { force: true });
    return undefined;
  }

  async #stamp(path: string): Promise<void> {
    const nowSeconds = this.#clock.wallMs() / 1000;
    await lutimes(path, nowSeconds, nowSeconds);
  }

  #pathOf(key: string): string {
    return join(this.path, this.#nameOf(key));
  }

  /** Returns the name of the file of a key. The other product also encodes `-` and `_`. */
  #nameOf(key: string): string {
    const name = encodeSegment(key);
    return this.#isForeign ? name.replaceAll('-', '%2D').replaceAll('_', '%5F') : name;
  }

  /**
   * Returns the key that a file name stands for; undefined for temporary files and names that this back end does not
   * make.
   */
  #keyOf(name: string): string | undefined {
    if (name.startsWith(TEMPORARY_PREFIX)) return undefined;
    try {
      const key = decodeURIComponent(name);
      return key.includes('/') && this.#nameOf(key) === name ? key : undefined;
    } catch {
      return undefined; // not one of ours
    }
  }

  /** Whether this back end looks at files of that name: at records, and in its own folder at temporary files, too. */
  #isOfBucket(name: string): boolean {
    return this.#keyOf(name) !== undefined || (!this.#isForeign && TEMPORARY_NAME.test(name));
  }
}

/** Returns the text of a file that is not a link. */
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
  return code === 'ENOENT' || code === 'ELOOP'; // a link was put there since the last look: not ours
}

/**
 * @throws DiscoveryError `misconfigured` if a link stands in place of a folder of records: files elsewhere would be
 * read and deleted
 */
async function checkRealFolder(path: string): Promise<void> {
  if ((await lstat(path)).isDirectory()) return;
  throw new DiscoveryError('misconfigured', `${path} is a link or not a folder; records are kept only in real folders`);
}
