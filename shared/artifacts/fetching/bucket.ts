import { createReadStream } from 'node:fs';
import { reasonOf } from '../../errors/index.ts';
import { readModelInfo } from '../../tokens/index.ts';
import { type BucketPlace, openS3, type S3 } from './s3.ts';
import { artifactKey } from './sources.ts';

/** A file of a model in a bucket. */
export interface BucketArtifact {
  readonly key: string;
  /** Bytes. */
  readonly size: number;
}

export interface PushedArtifact extends BucketArtifact {
  readonly path: string;
  /** False = it was there already. */
  readonly isNew: boolean;
}

/** Longest wait for one answer of the bucket; a file of 50 MB takes seconds. */
const ANSWER_MS_MAX = 5 * 60_000;
const KEYS_PREFIX = 'sha256/';
const LISTED_MAX = 100_000;

/**
 * Puts every file of the model in `folder` that serving needs into `bucket`, under its checksum.
 * @throws ModelFolderError for a folder that is no model's; Error with one line that names the bucket
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

/** What `pushFolder` has put there, in the order of keys; at most 100,000. */
export function listArtifacts(bucket: string, place: BucketPlace): Promise<readonly BucketArtifact[]> {
  return withBucket(bucket, place, async ({ sdk, client }) => {
    const listed: BucketArtifact[] = [];
    let ContinuationToken: string | undefined;
    do {
      const command = new sdk.ListObjectsV2Command({ Bucket: bucket, Prefix: KEYS_PREFIX, ContinuationToken });
      const page = await client.send(command, { abortSignal: AbortSignal.timeout(ANSWER_MS_MAX) });
      listed.push(...(page.Contents ?? []).map(({ Key: key = '', Size: size = 0 }) => ({ key, size })));
      ContinuationToken = page.IsTruncated === true ? page.NextContinuationToken : undefined;
    } while (ContinuationToken !== undefined && listed.length < LISTED_MAX);
    return listed;
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
