import { constants } from 'node:fs';
import { open, realpath } from 'node:fs/promises';
import { extname, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { workerError } from '../../errors/index.ts';
import type { FetchedMedia } from './fetch-media.ts';
import type { MediaBudget } from './media-bounds.ts';

export interface LocalMediaBounds {
  /** The only folder whose files may be read. */
  readonly folder: string;
  readonly fileBytesMax: number;
  /** Of the request that the medium belongs to. @default none but `fileBytesMax` */
  readonly budget?: MediaBudget;
}

/** By ending: a file says nothing else of what it is. */
const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
  '.bmp': 'image/bmp',
  '.mp4': 'video/mp4',
  '.webm': 'video/webm',
  '.mov': 'video/quicktime',
  '.mp3': 'audio/mpeg',
  '.wav': 'audio/wav',
  '.flac': 'audio/flac',
  '.ogg': 'audio/ogg',
};

/**
 * Reads a medium that a `file:` URL names, from below one folder. Where the path leads, links followed, decides; what lies
 * outside is refused in one way, there or not, so that nobody learns what this host holds.
 *
 * @throws ServeError `invalid_value` that says what the client can change; the signal's reason when it aborts.
 */
export async function readLocalMedia(
  url: string,
  bounds: LocalMediaBounds,
  signal: AbortSignal,
): Promise<FetchedMedia> {
  const { fileBytesMax, budget } = bounds;
  const path = await pathBelow(url, bounds.folder);
  signal.throwIfAborted();
  // A link put there since, and a pipe that never ends, are not opened.
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(unreadable);
  try {
    const stats = await file.stat();
    if (!stats.isFile()) throw refused('is no file');
    if (stats.size > fileBytesMax) throw refused(`holds more than ${fileBytesMax} bytes`);
    budget?.take(stats.size);
    const bytes = Buffer.alloc(stats.size); // as large as it was: one that grows is cut there
    const { bytesRead } = await file.read(bytes, 0, stats.size, 0);
    signal.throwIfAborted();
    return {
      mediaType: MEDIA_TYPES[extname(path).toLowerCase()] ?? 'application/octet-stream',
      bytes: bytes.subarray(0, bytesRead),
    };
  } finally {
    await file.close();
  }
}

async function pathBelow(url: string, folder: string): Promise<string> {
  const named = pathOf(url);
  const given = resolve(folder);
  const real = await realpath(given).catch(() => given);
  if (!isBelow(named, given) && !isBelow(named, real)) throw outside();
  const path = await realpath(named).catch(unreadable);
  if (!isBelow(path, real)) throw outside();
  return path;
}

function pathOf(url: string): string {
  try {
    const path = fileURLToPath(url);
    if (!path.includes('\0')) return resolve(path);
  } catch {
    // another host, or an escaped separator: said below
  }
  throw refused('is no file:///path of this host');
}

function isBelow(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way !== '' && way !== '..' && !way.startsWith(`..${sep}`);
}

function outside(): Error {
  return refused('is outside of the folder of local media');
}

function unreadable(error: NodeJS.ErrnoException): never {
  throw refused(`cannot be read (${error.code ?? 'unknown'})`);
}

function refused(fault: string): Error {
  return workerError('InvalidArgument', `a media URL ${fault}`);
}
