import { join } from 'node:path';
import type { Clock } from '../../clock/index.ts';
import { FileLock, withDeadline } from '../../concurrency/index.ts';
import { type HubModel, nameOfHubModel } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { namesForServing } from '../../tokens/index.ts';
import { CachedModel } from './cache.ts';
import { HubClient } from './client.ts';
import { download } from './download.ts';
import { HubFault } from './faults.ts';
import type { HubFile, HubListing } from './listing.ts';
import type { HubPlace } from './place.ts';
import { retrying } from './retries.ts';

/** Progress of the download of a model's files. */
export interface HubProgress {
  readonly files: number;
  /** Bytes that are here, and bytes of all files. */
  readonly bytes: number;
  readonly bytesOfAll: number;
}

export interface FetchHubOptions {
  readonly place: HubPlace;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  /** Called before the first byte, and then after every piece. */
  onProgress?(progress: HubProgress): void;
  /** Called with one line if the files in the cache are used although the hub could not say whether they are all. */
  onDoubt?(reason: string): void;
}

/** Longest fetch of one model, with the wait for another process that fetches it. A later call resumes. */
const FETCH_MS_MAX = 5 * 60_000;
/** Largest size of one file; the largest tokenizers have some 50 MB. */
const FILE_BYTES_MAX = 256 * 1024 * 1024;
const DISK_FULL: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT']);

/**
 * Returns the folder of a model in the cache of the hub. It downloads those files for serving that are missing there:
 * configuration, tokenizer and template, never weights. A whole snapshot is used as it is, and the hub is not asked.
 * @throws Error with one line that says what to do; the signal's reason
 */
export async function fetchHubModel(model: HubModel, options: FetchHubOptions): Promise<string> {
  const { place, signal } = options;
  const cached = new CachedModel(place.cache, model);
  const found = await cached.find();
  if (found?.isWhole === true) return found.folder;
  if (place.isOffline) return found?.folder ?? refuseOffline(model, place);
  try {
    return await fetchInTime(model, cached, options);
  } catch (thrown) {
    // Older tools do not note which files exist, so these may be all.
    if (found?.isUsable !== true || signal?.aborted === true) throw thrown;
    options.onDoubt?.(reasonOf(thrown));
    return found.folder;
  }
}

function fetchInTime(model: HubModel, cached: CachedModel, options: FetchHubOptions): Promise<string> {
  const { place, clock, signal } = options;
  const lateMessage = `${nameOfHubModel(model)} was not downloaded from ${place.endpoint} within ${FETCH_MS_MAX} ms; the next start resumes`;
  const path = join(cached.locks, 'stator.lock');
  return withDeadline({ clock, timeoutMs: FETCH_MS_MAX, lateMessage, signal }, async (within) => {
    const lock = new FileLock({ path, clock, waitMsMax: FETCH_MS_MAX, failure: lockFault });
    try {
      await cached.prepareLocks();
      return await lock.hold(within, () => fetchAlone(model, cached, { ...options, signal: within }));
    } catch (thrown) {
      within.throwIfAborted();
      throw diskFault(thrown, place) ?? thrown;
    }
  });
}

function refuseOffline(model: HubModel, { cache }: HubPlace): never {
  const name = nameOfHubModel(model);
  throw new HubFault(
    `${name} is not in ${cache}, and HF_HUB_OFFLINE forbids to download it: download it where the hub can be reached (hf download ${name.replace('@', ' --revision ')})`,
  );
}

function lockFault(what: string, cause?: unknown): Error {
  const error = new Error(`the lock of the model in the cache ${what}`, { cause });
  return cause === undefined ? error : Object.assign(error, { code: (cause as NodeJS.ErrnoException).code });
}

/** Returns the failure to throw instead of one of this disk; undefined for other failures. */
function diskFault(thrown: unknown, { cache }: HubPlace): Error | undefined {
  const { code } = thrown as NodeJS.ErrnoException;
  if (thrown instanceof HubFault || typeof code !== 'string') return undefined;
  const remedy = DISK_FULL.has(code) ? 'free some space, or name' : 'name';
  return new Error(
    `${cache} cannot be written: ${reasonOf(thrown)}: ${remedy} another folder with HF_HOME or HF_HUB_CACHE`,
    {
      cause: thrown,
    },
  );
}

type Fetching = FetchHubOptions & { readonly signal: AbortSignal };

/** Fetches the model while no other process of Stator does. */
async function fetchAlone(model: HubModel, cached: CachedModel, options: Fetching): Promise<string> {
  const found = await cached.find();
  if (found?.isWhole === true) return found.folder; // by the process that was waited for
  const client = new HubClient(options.place, options.clock);
  const listing = await retrying(options, () => client.list(model, options.signal));
  await downloadAll(model, listing, cached, client, options);
  const whole = await cached.find();
  if (whole !== undefined) return whole.folder;
  throw new Error(`the files of ${nameOfHubModel(model)} were removed from ${options.place.cache} meanwhile`);
}

async function downloadAll(
  model: HubModel,
  listing: HubListing,
  cached: CachedModel,
  client: HubClient,
  { clock, signal, onProgress }: Fetching,
): Promise<void> {
  const { commit } = listing;
  const files = namesForServing(listing.names).map((name) => verifiable(listing, name));
  const bytesOfAll = files.reduce((sum, { size }) => sum + size, 0);
  let bytesBefore = 0;
  await cached.prepare(commit);
  for (const file of files) {
    const tell = (bytes: number): void => onProgress?.({ files: files.length, bytes: bytesBefore + bytes, bytesOfAll });
    if (!(await cached.hasBlob(file))) {
      await download(file, cached.blobPath(file), {
        clock,
        signal,
        open: (from, within) => client.open(model, commit, file.name, from, within),
        onBytes: tell,
      });
    }
    tell(file.size);
    bytesBefore += file.size;
    await cached.link(commit, file);
  }
  await cached.complete(listing);
}

/** @throws HubFault for a file that is too large, or whose bytes cannot be verified */
function verifiable({ files }: HubListing, name: string): HubFile {
  const file = files.get(name);
  if (file === undefined) throw new HubFault(`the hub names no checksum of ${name}: download it with hf download`);
  if (file.size <= FILE_BYTES_MAX) return file;
  throw new HubFault(`${name} has ${file.size} bytes, more than ${FILE_BYTES_MAX}: download it with hf download`);
}
