import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { GetObjectCommandInput } from '@aws-sdk/client-s3';
import { type BucketPlace, openS3, type S3 } from '../../artifacts/fetching/index.ts';
import { reasonOf, ServeError, workerError } from '../../errors/index.ts';

export interface BucketFile {
  /** Relative to the adapter's folder; never leaves it. */
  readonly name: string;
  readonly bytes: number;
  readonly object: GetObjectCommandInput;
}

/** An adapter as it lies in a bucket now. */
export interface BucketAdapter {
  /** 32 hex digits: others when the address or any file is another. */
  readonly version: string;
  readonly bytes: number;
  readonly files: readonly BucketFile[];
}

/** The file by which engines know an adapter. */
const CONFIG = 'adapter_config.json';

/** Reads adapters out of buckets that speak S3. The SDK, too large to load for nothing, is loaded with the first one. */
export class Buckets {
  readonly #s3: S3;

  private constructor(s3: S3) {
    this.#s3 = s3;
  }

  static async open(place: BucketPlace): Promise<Buckets> {
    return new Buckets(await openS3(place));
  }

  /**
   * Lists what lies under `s3://bucket/prefix/`.
   * @throws ServeError `NotFound` without an adapter there, `InvalidArgument` for an address of something else
   */
  async find(uri: string, signal: AbortSignal): Promise<BucketAdapter> {
    const [, bucket, path = ''] = /^s3:\/\/([^/]+)(?:\/(.*))?$/.exec(uri) ?? [];
    if (bucket === undefined) throw refuse(`\`${uri}\` is not s3://bucket/prefix`);
    const prefix = path === '' || path.endsWith('/') ? path : `${path}/`;
    const command = new this.#s3.sdk.ListObjectsV2Command({ Bucket: bucket, Prefix: prefix });
    const listed = await this.#s3.client.send(command, { abortSignal: signal });
    if (listed.IsTruncated === true) throw refuse(`\`${uri}\` holds more than one adapter: over 1000 objects`);
    const files: BucketFile[] = [];
    for (const { Key = '', Size: bytes = 0, ETag } of listed.Contents ?? []) {
      if (Key.endsWith('/')) continue; // stands for a folder
      const name = Key.slice(prefix.length);
      if (leavesItsFolder(name)) throw refuse(`\`${uri}\` holds the key \`${Key}\`, which is no path of a file`);
      files.push({ name, bytes, object: { Bucket: bucket, Key, IfMatch: ETag } });
    }
    if (!files.some(({ name }) => name === CONFIG)) throw workerError('NotFound', `no ${CONFIG} under ${uri}`);
    return { version: versionOf(uri, files), bytes: files.reduce((sum, { bytes }) => sum + bytes, 0), files };
  }

  /** The bytes of `file`, as it was listed: fails when it has changed since. */
  async read(file: BucketFile, signal: AbortSignal): Promise<Readable> {
    const command = new this.#s3.sdk.GetObjectCommand(file.object);
    return (await this.#s3.client.send(command, { abortSignal: signal })).Body as Readable;
  }

  /** Breaks what is still under way. */
  close(): void {
    this.#s3.client.destroy();
  }
}

/** What went wrong with `uri`, in words for whoever wants it loaded. */
export function toBucketError(uri: string, thrown: unknown): ServeError {
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

function leavesItsFolder(name: string): boolean {
  return name.includes('\\') || name.includes('\0') || name.split('/').some((part) => ['', '.', '..'].includes(part));
}

function refuse(message: string): ServeError {
  return workerError('InvalidArgument', message, { param: 'source.uri' });
}
