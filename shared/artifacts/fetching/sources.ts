import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { type BucketPlace, openS3 } from './s3.ts';

/** A file of a model. */
export interface Artifact {
  /** As it is called in the folder of its model; never a path. */
  readonly name: string;
  /** `sha256:{hex}`. */
  readonly checksum: string;
  /** Bytes. */
  readonly size: number;
}

/**
 * Somewhere that files of models can be read from. What it gives is not believed: whoever reads sums it up. Rejects, or breaks
 * off, with an Error whose message is for an operator; stops at `signal`.
 */
export interface ArtifactSource {
  readonly kind: 'folder' | 'worker' | 's3';
  /** Which one, for messages. */
  readonly place: string;
  read(file: Artifact, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
}

/** A folder on this machine. */
export function folderSource(folder: string): ArtifactSource {
  return {
    kind: 'folder',
    place: folder,
    read: async ({ name }, signal) => createReadStream(join(folder, name), { signal }),
  };
}

/**
 * The status server of a worker that serves the model.
 * @param filesAt `host:port/path` of its folder, as on the worker's record
 */
export function workerSource(filesAt: string): ArtifactSource {
  return {
    kind: 'worker',
    place: filesAt,
    async read({ name }, signal) {
      const url = `http://${filesAt}/${encodeURIComponent(name)}`;
      const response = await fetch(url, { signal, redirect: 'error' });
      if (response.status === 200 && response.body !== null) return response.body;
      await response.body?.cancel();
      throw new Error(`it answers ${response.status}`);
    },
  };
}

/** Where a file lies in a bucket (`stator artifacts push`). */
export function artifactKey({ checksum }: Pick<Artifact, 'checksum'>): string {
  return checksum.replace(':', '/');
}

/** A bucket that holds files by checksum. The SDK is loaded when it is first asked. */
export function bucketSource(bucket: string, place: BucketPlace): ArtifactSource {
  let opening: ReturnType<typeof openS3> | undefined;
  return {
    kind: 's3',
    place: `s3://${bucket}`,
    async read(file, signal) {
      opening ??= openS3(place);
      const { sdk, client } = await opening;
      const command = new sdk.GetObjectCommand({ Bucket: bucket, Key: artifactKey(file) });
      return (await client.send(command, { abortSignal: signal })).Body as Readable;
    },
  };
}
