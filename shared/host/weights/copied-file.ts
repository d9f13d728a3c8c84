import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat, utimes } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { BucketObject } from '../../artifacts/index.ts';

/** ETag of an object that was uploaded in one part, without encryption by a key of its own: the MD5 of its content. */
const MD5 = /^"?([0-9a-f]{32})"?$/;

/** Gives a copied file the date of its object, by which `isCurrent` sees later whether the object has changed. */
export async function dateAs({ changedAtMs }: BucketObject, path: string): Promise<void> {
  if (changedAtMs === 0) return;
  const at = new Date(changedAtMs);
  await utimes(path, at, at);
}

/**
 * Whether the file at `path` has the content of its object. A file of the same size is not read if it is as new as the
 * object, because models have hundreds of gigabytes. If the object is newer, its checksum decides: another upload may
 * have brought the same content.
 * @param sum SHA-256 of the content. undefined = the ETag of the object is compared, if it is a checksum
 */
export async function isCurrent(
  path: string,
  object: BucketObject,
  sum: string | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  const found = await ifThere(stat(path));
  if (found?.size !== object.bytes) return false;
  if (wholeSeconds(found.mtimeMs) >= wholeSeconds(object.changedAtMs)) return true;
  const md5 = MD5.exec(object.etag ?? '')?.[1];
  const wanted = sum ?? md5;
  if (wanted === undefined) return false;
  const hash = createHash(sum === undefined ? 'md5' : 'sha256');
  await pipeline(createReadStream(path), hash, { signal });
  if (hash.digest('hex') !== wanted) return false;
  await dateAs(object, path);
  return true;
}

/** Buckets and some file systems date in whole seconds. */
function wholeSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}

/** Returns the size of a file; undefined if it is not there. */
export async function sizeOf(path: string): Promise<number | undefined> {
  return (await ifThere(stat(path)))?.size;
}

/** Resolves with undefined for a file or folder that is not there. */
export async function ifThere<T>(found: Promise<T>): Promise<T | undefined> {
  try {
    return await found;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
