import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { GetObjectCommandInput } from '@aws-sdk/client-s3';
import { type BucketPlace, FolderCache, leavesItsFolder, openS3, type S3 } from '../../artifacts/index.ts';
import type { Clock, Random } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import { reasonOf, ServeError, workerError } from '../../errors/index.ts';
import type { Logger } from '../../telemetry/index.ts';

interface BucketFile {
  /** Path relative to the adapter's folder; it never leaves that folder. */
  readonly name: string;
  readonly bytes: number;
  readonly object: GetObjectCommandInput;
}

/** The current state of an adapter in a bucket. */
interface BucketAdapter {
  /** Version in 32 hex digits, which changes if the address or any file changes. */
  readonly version: string;
  readonly bytes: number;
  readonly files: readonly BucketFile[];
}

/** File that marks a folder as an adapter for engines. */
const CONFIG = 'adapter_config.json';

/**
 * Lists the files under `s3://bucket/prefix/`.
 * @throws ServeError `NotFound` if no adapter is there, `InvalidArgument` for another kind of address
 */
async function findAdapter({ sdk, client }: S3, uri: string, signal: AbortSignal): Promise<BucketAdapter> {
  const [, bucket, path = ''] = /^s3:\/\/([^/]+)(?:\/(.*))?$/.exec(uri) ?? [];
  if (bucket === undefined) throw refuse(`\`${uri}\` is not s3://bucket/prefix`);
  const prefix = path === '' || path.endsWith('/') ? path : `${path}/`;
  const command = new sdk.ListObjectsV2Command({ Bucket: bucket, Prefix: prefix });
  const listed = await client.send(command, { abortSignal: signal });
  if (listed.IsTruncated === true) throw refuse(`\`${uri}\` holds more than one adapter: over 1000 objects`);
  const files: BucketFile[] = [];
  for (const { Key = '', Size: bytes = 0, ETag } of listed.Contents ?? []) {
    if (Key.endsWith('/')) continue; // a key that represents a folder
    const name = Key.slice(prefix.length);
    if (leavesItsFolder(name)) throw refuse(`\`${uri}\` holds the key \`${Key}\`, which is not the path of a file`);
    // `IfMatch` makes the reading fail if the object has changed since.
    files.push({ name, bytes, object: { Bucket: bucket, Key, IfMatch: ETag } });
  }
  if (!files.some(({ name }) => name === CONFIG)) throw workerError('NotFound', `no ${CONFIG} under ${uri}`);
  return { version: versionOf(uri, files), bytes: files.reduce((sum, { bytes }) => sum + bytes, 0), files };
}

/** Returns the failure of `uri` in words for the caller that wants to load it. */
function toBucketError(uri: string, thrown: unknown): ServeError {
  if (thrown instanceof ServeError) return thrown;
  const { name, $metadata } = thrown as { readonly name?: string; readonly $metadata?: { httpStatusCode?: number } };
  const status = name === 'CredentialsProviderError' ? 403 : $metadata?.httpStatusCode;
  if (status === 404) return workerError('NotFound', `${uri}: ${name}`);
  if (status === 401 || status === 403) return workerError('PermissionDenied', `${uri}: ${name}: ${reasonOf(thrown)}`);
  if (status === 412) return workerError('Unavailable', `${uri} has changed while it was fetched`);
  return workerError('Unavailable', `${uri} cannot be fetched: ${reasonOf(thrown)}`);
}

function versionOf(uri: string, files: readonly BucketFile[]): string {
  const state = files.map(({ name, bytes, object }) => [name, bytes, object.IfMatch]);
  return createHash('sha256')
    .update(JSON.stringify([uri, state]))
    .digest('hex')
    .slice(0, 32);
}

function refuse(message: string): ServeError {
  return workerError('InvalidArgument', message, { param: 'source.uri' });
}

export interface AdapterCacheOptions {
  /** Folder of the cache; created when it is first needed. */
  readonly folder: string;
  readonly buckets: BucketPlace;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Bytes that the folder may hold. @default 64 GiB */
  readonly bytesMax?: number;
}

/** One fetch under way. */
interface Fetch {
  readonly s3: S3;
  /** Bytes of all its files so far. */
  readonly progress: { bytes: number };
  readonly signal: AbortSignal;
}

const BYTES_MAX = 64 * 2 ** 30;
const ENTRIES_MAX = 1000;
/** Longest fetch of one adapter, in milliseconds. */
const FETCH_MS_MAX = 15 * 60_000;
/**
 * Interval of the check for silence, in milliseconds. A fetch is aborted after one or two intervals in which nothing
 * arrived.
 */
const SILENCE_MS_MAX = 30_000;

/**
 * Adapters from buckets, in a folder of this machine that workers may share. An adapter that has not changed is fetched
 * once. A folder gets its name when it is complete. Beyond the bounds the cache removes the adapters that were used
 * longest ago and are not loaded.
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

  /** Returns the folder of the adapter at `s3://bucket/prefix`, which stays until it is released. */
  async hold(uri: string, signal: AbortSignal): Promise<string> {
    const { clock, buckets: place } = this.#options;
    const s3 = await openS3(place); // the first adapter loads the SDK, which is large
    const silence = new AbortController();
    const progress = { bytes: 0 };
    let seenBytes = -1;
    const watch = clock.every(SILENCE_MS_MAX, () => {
      if (progress.bytes === seenBytes) silence.abort(new Error('its bucket is silent'));
      seenBytes = progress.bytes;
    });
    try {
      const fetching = (abort: AbortSignal): Promise<string> => this.#folderOf(uri, { s3, progress, signal: abort });
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
      s3.client.destroy(); // aborts requests that are still under way
    }
  }

  /** Releases a folder that `hold` returned; ignores other folders. */
  release(folder: string): void {
    this.#folders.release(folder);
  }

  async #folderOf(uri: string, fetch: Fetch): Promise<string> {
    const { clock, logger } = this.#options;
    const adapter = await findAdapter(fetch.s3, uri, fetch.signal);
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

async function download(file: BucketFile, path: string, { s3, progress, signal }: Fetch): Promise<void> {
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
  const { Body } = await s3.client.send(new s3.sdk.GetObjectCommand(file.object), { abortSignal: signal });
  await pipeline(Body as Readable, counted, createWriteStream(path, { flush: true }), { signal });
  if (bytes !== file.bytes) throw new Error(`${file.name} has ${bytes} bytes, not ${file.bytes}`);
}
