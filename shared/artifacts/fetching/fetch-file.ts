import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Clock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { Artifact, ArtifactSource } from './sources.ts';

/** How a read of a source ended. */
export type FetchOutcome = 'fetched' | 'wrong' | 'failed';

export interface FetchFileOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** A source that sends nothing for this long, or for twice that, is given up. @default 10_000 */
  readonly silenceMsMax?: number;
  /** Opens the file to write; there is none yet at `path`. @default on this disk */
  readonly create?: ((path: string) => Writable) | undefined;
  /** Told how each source did. */
  onRead(source: ArtifactSource, outcome: FetchOutcome, bytes: number): void;
}

const SILENCE_MS_MAX = 10_000;
/** The disk here does not take more: no other source would help. */
const DISK_FAULTS: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG', 'EROFS', 'EIO']);

const onThisDisk = (path: string): Writable => createWriteStream(path, { flags: 'wx', mode: 0o600, flush: true });

/**
 * Writes `file` to `path`, out of the first of `sources` that gives its very bytes.
 * @throws Error with one line that says what was wrong with each; that of this disk, where it takes no more, and no other source is
 * read; the signal's reason. Nothing is left at `path` then.
 */
export async function fetchFile(
  file: Artifact,
  path: string,
  sources: readonly ArtifactSource[],
  options: FetchFileOptions,
): Promise<void> {
  const faults: string[] = [];
  for (const source of sources) {
    let bytes = 0;
    try {
      const fault = await readFrom(source, file, path, options, (length) => {
        bytes += length;
      });
      options.onRead(source, fault === undefined ? 'fetched' : 'wrong', bytes);
      if (fault === undefined) return;
      faults.push(`${source.place}: ${fault}`);
    } catch (thrown) {
      if (DISK_FAULTS.has((thrown as NodeJS.ErrnoException).code)) {
        await rm(path, { force: true });
        throw thrown;
      }
      options.onRead(source, 'failed', bytes);
      faults.push(`${source.place}: ${reasonOf(thrown)}`);
    }
    await rm(path, { force: true });
    options.signal.throwIfAborted();
  }
  throw new Error(faults.length === 0 ? 'no worker and no bucket to fetch it from' : faults.join('; '));
}

/** @returns what is wrong with the bytes that came; undefined = they are those of the file */
async function readFrom(
  source: ArtifactSource,
  file: Artifact,
  path: string,
  { clock, signal, silenceMsMax = SILENCE_MS_MAX, create = onThisDisk }: FetchFileOptions,
  onBytes: (length: number) => void,
): Promise<string | undefined> {
  const silence = new AbortController();
  const stop = AbortSignal.any([signal, silence.signal]);
  let heard = false;
  const watch = clock.every(silenceMsMax, () => {
    if (!heard) silence.abort(new Error(`it sends nothing for ${silenceMsMax} ms`));
    heard = false;
  });
  const sum = createHash('sha256');
  let bytes = 0;
  const checked = async function* (chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      heard = true;
      bytes += chunk.length;
      onBytes(chunk.length);
      if (bytes > file.size) return; // what is more than that is not read
      sum.update(chunk);
      yield chunk;
    }
  };
  try {
    const chunks = await source.read(file, stop);
    await pipeline(chunks, checked, create(path), { signal: stop });
  } catch (thrown) {
    signal.throwIfAborted();
    throw silence.signal.aborted ? silence.signal.reason : thrown;
  } finally {
    watch.cancel();
  }
  if (bytes !== file.size)
    return bytes > file.size ? `more than ${file.size} bytes` : `${bytes} bytes, not ${file.size}`;
  return `sha256:${sum.digest('hex')}` === file.checksum ? undefined : 'its bytes are others than the card names';
}
