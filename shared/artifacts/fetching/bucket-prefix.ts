import type { Clock } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import type { S3 } from './open-s3.ts';

/** An object below a prefix. */
export interface BucketObject {
  readonly key: string;
  /** Path below the prefix; it never leaves it. */
  readonly name: string;
  readonly bytes: number;
  readonly etag: string | undefined;
  /** Unix ms of its last change; 0 = the bucket does not say. */
  readonly changedAtMs: number;
}

/** A prefix of a bucket. */
export interface BucketPrefix {
  readonly bucket: string;
  /** Ends in a slash. */
  readonly prefix: string;
}

const ANSWER_MS_MAX = 30_000;
/** Objects of a model: a few hundred. */
const OBJECTS_MAX = 20_000;

/** Parses `s3://bucket/prefix/`, whose last slash may be missing. @throws Error for another text */
export function parsePrefix(uri: string): BucketPrefix {
  const [, bucket, path] = /^s3:\/\/([^/]+)\/(.+)$/.exec(uri) ?? [];
  if (bucket === undefined || path === undefined) throw new Error(`${uri} is not s3://bucket/prefix/`);
  return { bucket, prefix: path.endsWith('/') ? path : `${path}/` };
}

/**
 * Lists a prefix.
 * @param objectsMax most objects; 20,000 by default
 * @throws Error with one line, also for a key that is not the path of a file
 */
export async function listPrefix(
  { sdk, client }: S3,
  { bucket, prefix }: BucketPrefix,
  clock: Clock,
  signal?: AbortSignal,
  objectsMax = OBJECTS_MAX,
): Promise<readonly BucketObject[]> {
  const objects: BucketObject[] = [];
  let ContinuationToken: string | undefined;
  do {
    const command = new sdk.ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, ContinuationToken });
    const limit = { clock, timeoutMs: ANSWER_MS_MAX, signal };
    const page = await withDeadline(limit, (abortSignal) => client.send(command, { abortSignal }));
    for (const { Key: key = '', Size: bytes = 0, ETag: etag, LastModified } of page.Contents ?? []) {
      if (key.endsWith('/')) continue; // stands for a folder
      const name = key.slice(prefix.length);
      if (leavesItsFolder(name)) throw new Error(`s3://${bucket}/${key} is not the path of a file`);
      objects.push({ key, name, bytes, etag, changedAtMs: LastModified?.getTime() ?? 0 });
    }
    ContinuationToken = page.IsTruncated === true ? page.NextContinuationToken : undefined;
    if (objects.length > objectsMax) throw new Error(`s3://${bucket}/${prefix} holds more than ${objectsMax} objects`);
  } while (ContinuationToken !== undefined);
  return objects;
}

/** Whether the rest of a key below its prefix is not the path of a file there. */
export function leavesItsFolder(name: string): boolean {
  return name.includes('\\') || name.includes('\0') || name.split('/').some((part) => ['', '.', '..'].includes(part));
}
