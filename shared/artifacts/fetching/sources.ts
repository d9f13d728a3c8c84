import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { type Clock, systemClock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { readModelInfo } from '../../tokens/index.ts';
import { listPrefix } from './bucket-prefix.ts';
import { type BucketPlace, openS3, type S3 } from './open-s3.ts';

/** A file of a model. */
export interface Artifact {
  /** Name of the file in the folder of its model; never a path. */
  readonly name: string;
  /** Name under which its worker serves it. @default its name */
  readonly servedAs?: string;
  /** Checksum, `sha256:{hex}` or `blake3:{hex}`. */
  readonly checksum: string;
  /** Size in bytes. */
  readonly size: number;
}

/**
 * A place from which files of models can be read. Its bytes are not trusted: the reader checks the sum. A read rejects,
 * or breaks off, with an Error whose message is for an operator. It stops at `signal`.
 */
export interface ArtifactSource {
  readonly kind: 'folder' | 'worker' | 's3' | 'hub';
  /** Name of the source, for messages. */
  readonly place: string;
  read(file: Artifact, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
}

/** Reads from a folder on this machine. */
export function folderSource(folder: string): ArtifactSource {
  return {
    kind: 'folder',
    place: folder,
    read: async ({ name }, signal) => createReadStream(join(folder, name), { signal }),
  };
}

/**
 * Reads from the status server of a worker that serves the model.
 * @param filesAt `host:port/path` of its folder, as on the worker's record
 */
export function workerSource(filesAt: string): ArtifactSource {
  return {
    kind: 'worker',
    place: filesAt,
    async read({ name, servedAs = name }, signal) {
      const url = `http://${filesAt}/${encodeURIComponent(servedAs)}`;
      const response = await fetch(url, { signal, redirect: 'error' });
      if (response.status === 200 && response.body !== null) return response.body;
      await response.body?.cancel();
      throw new Error(`it answered ${response.status}`);
    },
  };
}

/** Returns the key of a file in a bucket (`stator artifacts push`). */
export function artifactKey({ checksum }: Pick<Artifact, 'checksum'>): string {
  return checksum.replace(':', '/');
}

/** Reads from a bucket that holds files by checksum. The first read, or `load`, loads the SDK. */
export function bucketSource(bucket: string, place: BucketPlace): ArtifactSource & { load(): Promise<void> } {
  let opening: ReturnType<typeof openS3> | undefined;
  const opened = (): ReturnType<typeof openS3> => {
    opening ??= openS3(place);
    return opening;
  };
  return {
    kind: 's3',
    place: `s3://${bucket}`,
    load: async () => {
      await opened();
    },
    async read(file, signal) {
      const { sdk, client } = await opened();
      const command = new sdk.GetObjectCommand({ Bucket: bucket, Key: artifactKey(file) });
      return (await client.send(command, { abortSignal: signal })).Body as Readable;
    },
  };
}

/** A file of a model in a bucket. */
export interface BucketArtifact {
  readonly key: string;
  /** Size in bytes. */
  readonly size: number;
}

export interface PushedArtifact extends BucketArtifact {
  readonly path: string;
  /** Whether the file was uploaded; false = it was there already. */
  readonly isNew: boolean;
}

/** Longest wait for one answer of the bucket; a file of 50 MB takes seconds. */
const ANSWER_MS_MAX = 5 * 60_000;
const KEYS_PREFIX = 'sha256/';
const LISTED_MAX = 100_000;

/**
 * Puts every file in `folder` that serving needs into `bucket`, under its checksum.
 * @throws ModelFolderError if the folder does not hold a model; Error with one line that names the bucket
 */
export async function pushFolder(
  folder: string,
  bucket: string,
  place: BucketPlace,
): Promise<readonly PushedArtifact[]> {
  const { files } = await readModelInfo(folder);
  return withBucket(bucket, place, async ({ sdk, client }) => {
    const pushed: PushedArtifact[] = [];
    for (const file of Object.values(files)) {
      const key = artifactKey(file);
      const at = { Bucket: bucket, Key: key };
      const isNew = !(await isThere({ sdk, client }, at, file.size));
      if (isNew) {
        const body = {
          Body: createReadStream(file.path),
          ContentLength: file.size,
          ChecksumSHA256: base64Of(file.checksum),
        };
        await client.send(new sdk.PutObjectCommand({ ...at, ...body }), {
          abortSignal: AbortSignal.timeout(ANSWER_MS_MAX),
        });
      }
      pushed.push({ key, size: file.size, path: file.path, isNew });
    }
    return pushed;
  });
}

/**
 * Lists the files that `pushFolder` has put there, in the order of keys.
 * @throws Error if there are more than 100,000
 */
export function listArtifacts(
  bucket: string,
  place: BucketPlace,
  clock: Clock = systemClock,
): Promise<readonly BucketArtifact[]> {
  return withBucket(bucket, place, async (s3) => {
    const objects = await listPrefix(s3, { bucket, prefix: KEYS_PREFIX }, clock, undefined, LISTED_MAX);
    return objects.map(({ key, bytes: size }) => ({ key, size }));
  });
}

async function isThere({ sdk, client }: S3, at: { Bucket: string; Key: string }, size: number): Promise<boolean> {
  try {
    const found = await client.send(new sdk.HeadObjectCommand(at), { abortSignal: AbortSignal.timeout(ANSWER_MS_MAX) });
    return found.ContentLength === size;
  } catch (thrown) {
    const status = (thrown as { readonly $metadata?: { readonly httpStatusCode?: number } }).$metadata?.httpStatusCode;
    if (status === 404) return false;
    throw thrown;
  }
}

async function withBucket<T>(bucket: string, place: BucketPlace, work: (s3: S3) => Promise<T>): Promise<T> {
  const s3 = await openS3(place);
  try {
    return await work(s3);
  } catch (thrown) {
    throw new Error(`bucket ${bucket}: ${reasonOf(thrown)}`, { cause: thrown });
  } finally {
    s3.client.destroy();
  }
}

function base64Of(checksum: string): string {
  return Buffer.from(checksum.slice(checksum.indexOf(':') + 1), 'hex').toString('base64');
}
