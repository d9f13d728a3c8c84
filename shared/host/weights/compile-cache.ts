import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { chmod, mkdir, readdir, rm, stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  type BucketObject,
  type BucketPlace,
  listPrefix,
  openS3,
  parsePrefix,
  type S3,
} from '../../artifacts/index.ts';
import type { Clock } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';

interface CompileCacheOptions {
  /** URI of the weights, beside which the archives lie. */
  readonly weightsUri: string;
  /** Facts that decide whether compiled code fits: image, arguments, type of the machine. */
  readonly key: readonly unknown[];
  readonly place: BucketPlace;
  readonly clock: Clock;
  /** Folder into which the engines write. */
  readonly folder: string;
}

/** Bound of an archive; one upload to S3 may have 5 GB. */
const BYTES_MAX = 4e9;
const FETCH_MS_MAX = 120_000;
const STORE_MS_MAX = 600_000;

/**
 * Code that engines compile for a model and a GPU, kept beside the weights so that only the first machine compiles:
 *
 *     s3://bucket/prefix.compile/{sum of the key}/{sha256 of the archive}.tar.gz
 *
 * An archive has its sum as its name, so none is ever overwritten, and what arrives is checked.
 */
export class CompileCache {
  readonly #options: CompileCacheOptions;
  readonly #uri: string;
  /** Sum of the archive that was fetched; undefined = none was there. */
  #fetched: string | undefined;

  constructor(options: CompileCacheOptions) {
    this.#options = options;
    const key = createHash('sha256').update(JSON.stringify(options.key)).digest('hex').slice(0, 32);
    this.#uri = `${options.weightsUri.replace(/\/$/, '')}.compile/${key}/`;
  }

  /** Fills the folder, if it is empty, with the newest archive. @throws Error with one line */
  async fetch(signal: AbortSignal): Promise<'fetched' | 'absent' | 'present'> {
    const { folder } = this.#options;
    await mkdir(folder, { recursive: true });
    await chmod(folder, 0o1777); // the engine of a container is another user
    if ((await readdir(folder)).length > 0) return 'present';
    return withBucket(this.#options, FETCH_MS_MAX, signal, async (s3, limited) => {
      const newest = await this.#newest(s3, limited);
      const sum = /^([0-9a-f]{64})\.tar\.gz$/.exec(newest?.name ?? '')?.[1];
      if (newest === undefined || sum === undefined) return 'absent';
      if (newest.bytes > BYTES_MAX) throw new Error(`${newest.key} has ${newest.bytes} bytes, more than ${BYTES_MAX}`);
      const archive = `${folder}.tar.gz`;
      try {
        const input = { Bucket: parsePrefix(this.#uri).bucket, Key: newest.key };
        const { Body } = await s3.client.send(new s3.sdk.GetObjectCommand(input), { abortSignal: limited });
        await pipeline(Body as Readable, createWriteStream(archive), { signal: limited });
        if ((await sumOf(archive, limited)) !== sum) throw new Error(`${newest.key}: its sum is not its name`);
        await run('tar', ['--extract', '--gzip', '--no-same-owner', '--file', archive, '--directory', folder], limited);
      } finally {
        await rm(archive, { force: true });
      }
      this.#fetched = sum;
      return 'fetched';
    });
  }

  /** Stores what the folder holds, unless an archive was fetched or another machine has stored one meanwhile. */
  async store(signal: AbortSignal): Promise<'stored' | 'kept' | 'empty'> {
    const { folder } = this.#options;
    if (this.#fetched !== undefined) return 'kept';
    if ((await readdir(folder)).length === 0) return 'empty';
    return withBucket(this.#options, STORE_MS_MAX, signal, async (s3, limited) => {
      if ((await this.#newest(s3, limited)) !== undefined) return 'kept';
      const archive = `${folder}.tar.gz`;
      try {
        await run('tar', ['--create', '--gzip', '--file', archive, '--directory', folder, '.'], limited);
        const { size } = await stat(archive);
        if (size > BYTES_MAX) throw new Error(`the archive has ${size} bytes, more than ${BYTES_MAX}`);
        const sum = await sumOf(archive, limited);
        const { bucket, prefix } = parsePrefix(this.#uri);
        const input = {
          Bucket: bucket,
          Key: `${prefix}${sum}.tar.gz`,
          Body: createReadStream(archive),
          ContentLength: size,
          ChecksumSHA256: Buffer.from(sum, 'hex').toString('base64'),
        };
        await s3.client.send(new s3.sdk.PutObjectCommand(input), { abortSignal: limited });
        this.#fetched = sum;
        return 'stored';
      } finally {
        await rm(archive, { force: true });
      }
    });
  }

  async #newest(s3: S3, signal: AbortSignal): Promise<BucketObject | undefined> {
    const archives = await listPrefix(s3, parsePrefix(this.#uri), this.#options.clock, signal);
    return archives.toSorted((one, other) => other.changedAtMs - one.changedAtMs)[0];
  }
}

async function withBucket<T>(
  { place, clock }: Pick<CompileCacheOptions, 'place' | 'clock'>,
  timeoutMs: number,
  signal: AbortSignal,
  work: (s3: S3, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const s3 = await openS3(place);
  try {
    return await withDeadline({ clock, timeoutMs, signal }, (limited) => work(s3, limited));
  } finally {
    s3.client.destroy();
  }
}

async function sumOf(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash, { signal });
  return hash.digest('hex');
}

function run(program: string, args: readonly string[], signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], signal });
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-1000);
    });
    child.once('error', reject);
    child.once('close', (code) => {
      if (code === 0) resolve();
      else reject(new Error(`${program} ended with ${code}: ${said.trim().split('\n').at(-1)}`));
    });
  });
}
