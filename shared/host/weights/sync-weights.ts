import { createHash, type Hash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  type BucketObject,
  type BucketPlace,
  type BucketPrefix,
  listPrefix,
  openS3,
  parsePrefix,
  type S3,
} from '../../artifacts/index.ts';
import type { Clock } from '../../clock/index.ts';
import { Semaphore } from '../../concurrency/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { dateAs, ifThere, isCurrent, sizeOf } from './copied-file.ts';

interface SyncOptions {
  /** `s3://bucket/prefix/`. */
  readonly uri: string;
  readonly place: BucketPlace;
  /** Folder that will hold the files. */
  readonly folder: string;
  readonly clock: Clock;
  /** Called with each number of bytes that has arrived. */
  onBytes(count: number): void;
  /** Called with the failure of a file that is tried again. */
  onRetry(problem: string): void;
}

/** Files under way at a time: enough for a disk of 1 GB/s at the speed of one connection to S3. */
const AT_ONCE = 16;
const TRIES_MAX = 5;
const FIRST_PAUSE_MS = 500;
/** Longest time in which nothing of a file arrives. */
const SILENCE_MS_MAX = 30_000;
/** File of a prefix with the sums of the others, as `sha256sum` writes them. */
const SUMS = 'SHA256SUMS';

/** Failure of a file whose bytes all came. The whole copy is tried again, not the file at once. */
class WrongSum extends Error {}

interface Fetch extends SyncOptions {
  readonly s3: S3;
  readonly at: BucketPrefix;
  readonly signal: AbortSignal;
}

/**
 * Copies a prefix to a folder. Files that are there and hold what their objects hold stay (`isCurrent`). One that broke
 * off goes on where it ended, unless its object has changed since. A file gets its name once it is whole and its sum is
 * right: the sum of `SHA256SUMS` if the prefix has one. That file is copied each time.
 * @throws Error with one line that names the file
 */
export async function syncWeights(
  options: SyncOptions,
  signal: AbortSignal,
): Promise<{ bytes: number; files: number }> {
  const s3 = await openS3(options.place);
  const at = parsePrefix(options.uri);
  try {
    const objects = await listPrefix(s3, at, options.clock, signal);
    if (objects.length === 0) throw new Error(`${options.uri} holds no objects`);
    const failed = new AbortController();
    const fetch: Fetch = { ...options, s3, at, signal: AbortSignal.any([signal, failed.signal]) };
    await mkdir(options.folder, { recursive: true, mode: 0o755 });
    await removeOtherParts(objects, options.folder);
    const sumsFile = objects.find(({ name }) => name === SUMS);
    const sums = sumsFile === undefined ? new Map<string, string>() : await fetchSums(sumsFile, fetch);
    const places = new Semaphore(AT_ONCE);
    const rest = objects
      .filter((object) => object !== sumsFile)
      .map(
        (object) =>
          places
            .run(() => fetchFile(object, sums.get(object.name), fetch), fetch.signal)
            .catch((thrown: unknown) => failed.abort(thrown)), // one that cannot be fetched ends the others
      );
    await Promise.all(rest);
    fetch.signal.throwIfAborted();
    return { bytes: objects.reduce((sum, { bytes }) => sum + bytes, 0), files: objects.length };
  } finally {
    s3.client.destroy();
  }
}

/** Copies the file of sums, also over one that is there: other sums are as long. */
async function fetchSums(file: BucketObject, fetch: Fetch): Promise<ReadonlyMap<string, string>> {
  const path = join(fetch.folder, SUMS);
  await rm(path, { force: true });
  await fetchFile(file, undefined, fetch);
  return readSums(await readFile(path, 'utf8'));
}

/** Parses lines as `HEX  NAME` or `HEX *NAME`, with or without `./` before the name. */
function readSums(text: string): Map<string, string> {
  const lines = text.split('\n').map((line) => /^([0-9a-f]{64}) [ *](?:\.\/)?(.+)$/.exec(line.trim()));
  return new Map(lines.flatMap((match) => (match?.[1] && match[2] ? [[match[2], match[1]] as const] : [])));
}

/** End of the name of a file of which a part has come: the version of its object, and `.part`. */
const PART = /\.[0-9a-f]{12}\.part$/;

/** Returns the path of the part of a file that has come. Another version of its object has another one. */
function partOf({ name, etag = '' }: BucketObject, folder: string): string {
  const version = createHash('sha256').update(etag).digest('hex').slice(0, 12);
  return join(folder, `${name}.${version}.part`);
}

/** Removes the parts of other versions of objects, which nothing would complete. */
async function removeOtherParts(objects: readonly BucketObject[], folder: string): Promise<void> {
  const parts = new Set(objects.map((object) => partOf(object, folder)));
  for (const each of new Set([...parts].map((part) => dirname(part)))) {
    for (const name of await namesIn(each)) {
      const path = join(each, name);
      if (PART.test(name) && !parts.has(path)) await rm(path);
    }
  }
}

async function fetchFile(object: BucketObject, sum: string | undefined, fetch: Fetch): Promise<void> {
  const path = join(fetch.folder, object.name);
  if (await isCurrent(path, object, sum, fetch.signal)) return;
  await mkdir(dirname(path), { recursive: true, mode: 0o755 });
  const part = partOf(object, fetch.folder);
  for (let attempt = 1; ; attempt++) {
    try {
      await fetchOnce(object, sum, part, fetch);
      await dateAs(object, part);
      await rename(part, path);
      return;
    } catch (thrown) {
      fetch.signal.throwIfAborted();
      const problem = `${object.name} cannot be fetched: ${reasonOf(thrown)}`;
      if (attempt === TRIES_MAX || isFinal(thrown)) throw new Error(problem, { cause: thrown });
      fetch.onRetry(problem);
      await fetch.clock.sleep(FIRST_PAUSE_MS * 2 ** (attempt - 1), fetch.signal);
    }
  }
}

/** Appends to `part` what is missing. `If-Match` refuses an object that has changed since it was listed. */
async function fetchOnce(object: BucketObject, sum: string | undefined, part: string, fetch: Fetch): Promise<void> {
  const { s3, at, signal, clock } = fetch;
  let had = (await sizeOf(part)) ?? 0;
  if (had > object.bytes) {
    await rm(part);
    had = 0;
  }
  const hash = sum === undefined ? undefined : createHash('sha256');
  if (hash !== undefined && had > 0) await pipeline(createReadStream(part, { end: had - 1 }), feed(hash), { signal });
  if (had < object.bytes || object.bytes === 0) {
    const silence = new AbortController();
    const abortSignal = AbortSignal.any([signal, silence.signal]);
    let seen = 0;
    let lastSeen = -1;
    const watch = clock.every(SILENCE_MS_MAX, () => {
      if (seen === lastSeen) silence.abort(new Error('the bucket is silent'));
      lastSeen = seen;
    });
    const counted = async function* (source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
      for await (const chunk of source) {
        seen += chunk.length;
        if (had + seen > object.bytes) throw new Error(`it has more than ${object.bytes} bytes`);
        hash?.update(chunk);
        fetch.onBytes(chunk.length);
        yield chunk;
      }
    };
    try {
      const range = had > 0 ? { Range: `bytes=${had}-` } : {};
      const input = { Bucket: at.bucket, Key: object.key, IfMatch: object.etag, ...range };
      const { Body } = await s3.client.send(new s3.sdk.GetObjectCommand(input), { abortSignal });
      const file = createWriteStream(part, { flags: 'a', flush: true });
      await pipeline(Body as Readable, counted, file, { signal: abortSignal });
    } finally {
      watch.cancel();
    }
  }
  const bytes = await sizeOf(part);
  if (bytes !== object.bytes) throw new Error(`it has ${bytes} bytes, not ${object.bytes}`);
  if (hash !== undefined && hash.digest('hex') !== sum) {
    await rm(part);
    throw new WrongSum('its sum is not the one of SHA256SUMS');
  }
}

function feed(hash: Hash) {
  return async (source: AsyncIterable<Uint8Array>): Promise<void> => {
    for await (const chunk of source) hash.update(chunk);
  };
}

/** Whether another try at once cannot help: a missing right, an object that is gone or has changed, a wrong sum. */
function isFinal(thrown: unknown): boolean {
  const { name, $metadata } = thrown as { readonly name?: string; readonly $metadata?: { httpStatusCode?: number } };
  const status = $metadata?.httpStatusCode ?? 0;
  if (thrown instanceof WrongSum) return true;
  return name === 'CredentialsProviderError' || [401, 403, 404, 412].includes(status);
}

async function namesIn(folder: string): Promise<readonly string[]> {
  return (await ifThere(readdir(folder))) ?? [];
}
