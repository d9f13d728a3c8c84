import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { Clock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { silenceOf } from '../fetching/silence.ts';
import type { HubBytes } from './client.ts';
import { HubFault } from './faults.ts';
import type { HubFile } from './listing.ts';
import { retrying } from './retries.ts';

/** Wait before a download that broke off is resumed. */
const RESUME_WAIT_MS = 500;

export interface DownloadOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Opens the file from a position. */
  open(from: number, signal: AbortSignal): Promise<HubBytes>;
  /** Called with the number of bytes that are there, also those of an earlier start. */
  onBytes(bytes: number): void;
}

/** Part of a file on this disk. */
interface Part {
  readonly file: FileHandle;
  bytes: number;
  sum: Hash;
}

/**
 * Downloads the content of a file to `path`, if it is not there. The bytes come first into `{path}.stator.incomplete`,
 * from where a later call resumes; they get their name once size and checksum are right. The caller holds the lock of
 * the model.
 * @throws HubFault; the error of this disk; the signal's reason
 */
export async function download(file: HubFile, path: string, options: DownloadOptions): Promise<void> {
  const partPath = `${path}.stator.incomplete`;
  const resumed = await tryPart(file, partPath, options);
  const isRight = resumed.isRight || (resumed.wasResumed && (await tryPart(file, partPath, options)).isRight);
  if (!isRight) throw new HubFault(`${file.name}: the bytes that came are others than the hub names`);
  await rename(partPath, path);
}

/** Completes the part, and removes it if its bytes are wrong or the disk is full. */
async function tryPart(file: HubFile, path: string, options: DownloadOptions) {
  const handle = await open(path, 'a+');
  try {
    const part = await readPart(handle, file, path);
    const wasResumed = part.bytes > 0;
    options.onBytes(part.bytes);
    await fill(part, file, options);
    const isRight = part.bytes === file.size && part.sum.digest('hex') === (file.sha256 ?? file.blobId);
    if (isRight) await handle.sync();
    else await rm(path, { force: true });
    return { isRight, wasResumed };
  } catch (thrown) {
    const isOfDisk = typeof (thrown as NodeJS.ErrnoException).code === 'string' && !(thrown instanceof HubFault);
    if (isOfDisk) await rm(path, { force: true }); // what it holds may be what is missing elsewhere
    throw thrown;
  } finally {
    await handle.close();
  }
}

async function readPart(handle: FileHandle, file: HubFile, path: string): Promise<Part> {
  const { size: bytes } = await handle.stat();
  if (bytes > file.size) return emptied({ file: handle, bytes, sum: sumOf(file) }, file);
  const sum = sumOf(file);
  if (bytes > 0)
    await pipeline(createReadStream(path, { end: bytes - 1 }), async (chunks) => {
      for await (const chunk of chunks) sum.update(chunk as Uint8Array);
    });
  return { file: handle, bytes, sum };
}

async function emptied(part: Part, file: HubFile): Promise<Part> {
  await part.file.truncate(0);
  part.bytes = 0;
  part.sum = sumOf(file);
  return part;
}

/** Reads the rest of the file. An attempt that brings bytes allows further attempts, within the caller's deadline. */
async function fill(part: Part, file: HubFile, options: DownloadOptions): Promise<void> {
  while (part.bytes < file.size) {
    await retrying(options, async () => {
      const before = part.bytes;
      try {
        await readRest(part, file, options);
      } catch (thrown) {
        const isFailure = !(thrown instanceof HubFault) || !thrown.isTransient || part.bytes <= before;
        if (isFailure) throw thrown;
        await options.clock.sleep(RESUME_WAIT_MS, options.signal);
      }
    });
  }
}

/** Reads an answer; if the hub refuses to send only the rest, it reads the whole file. */
async function readRest(part: Part, file: HubFile, options: DownloadOptions): Promise<void> {
  const before = part.bytes;
  try {
    await readAnswer(part, file, options);
  } catch (thrown) {
    const isRefused = thrown instanceof HubFault && !thrown.isTransient && part.bytes === before && before > 0;
    if (!isRefused) throw thrown;
    await emptied(part, file);
    await readAnswer(part, file, options);
  }
}

/** Appends one answer of the hub to the part. */
async function readAnswer(
  part: Part,
  file: HubFile,
  { clock, signal, open: ask, onBytes }: DownloadOptions,
): Promise<void> {
  const silence = silenceOf(clock, signal);
  try {
    const { from, body } = await ask(part.bytes, silence.signal);
    if (from !== part.bytes) await emptied(part, file);
    let isEmpty = true;
    for await (const chunk of body) {
      silence.heard();
      isEmpty = false;
      if (part.bytes + chunk.length > file.size) {
        throw new HubFault(`${file.name}: more bytes came than the hub names`);
      }
      await part.file.appendFile(chunk);
      part.sum.update(chunk);
      part.bytes += chunk.length;
      onBytes(part.bytes);
    }
    if (isEmpty) throw new HubFault(`${file.name}: the hub sent nothing of it`, { isTransient: true });
  } catch (thrown) {
    signal.throwIfAborted();
    if (thrown instanceof HubFault || typeof (thrown as NodeJS.ErrnoException).syscall === 'string') throw thrown;
    const reason = silence.signal.aborted ? silence.signal.reason : thrown;
    throw new HubFault(`${file.name}: the download broke off: ${reasonOf(reason)}`, {
      isTransient: true,
      cause: thrown,
    });
  } finally {
    silence.end();
  }
}

/** Returns the checksum to compute: SHA-256 of a large file, and Git's name of the content of a small one. */
function sumOf({ size, sha256 }: HubFile): Hash {
  return sha256 === undefined ? createHash('sha1').update(`blob ${size}\0`) : createHash('sha256');
}
