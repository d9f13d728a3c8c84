import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Clock, systemClock } from '../clock/index.ts';

const MODE = 0o600;
const FOLDER_MODE = 0o700;
/** How long another holder is waited for. */
const WAIT_MS_MAX = 5000;
const LOOK_MS = 20;
/** A lock as old was left by a process that died. */
const STALE_MS = 30_000;

export interface FileLockOptions {
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  /** The error that is thrown where the lock cannot be had. */
  failure(what: string, cause?: unknown): Error;
}

/**
 * Runs `work` while no other process of this machine runs work under the lock file at `path`, whose folder is made where it is not
 * there. One that was left behind is taken after 30 s; another holder is waited for 5 s at most.
 */
export async function withFileLock<T>(path: string, options: FileLockOptions, work: () => Promise<T>): Promise<T> {
  const token = randomUUID();
  await take(path, token, options);
  try {
    return await work();
  } finally {
    // Work that took longer than a lock lasts may have lost it: that of another one stays.
    if ((await readFile(path, 'utf8').catch(() => '')) === token) await rm(path, { force: true });
  }
}

async function take(path: string, token: string, { clock, signal, failure }: FileLockOptions): Promise<void> {
  const untilMs = clock.nowMs() + WAIT_MS_MAX;
  const refuse = (cause: unknown): never => {
    throw failure('cannot be written', cause);
  };
  await mkdir(dirname(path), { recursive: true, mode: FOLDER_MODE }).catch(refuse);
  for (;;) {
    signal?.throwIfAborted();
    try {
      await writeFile(path, token, { flag: 'wx', mode: MODE });
      return;
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== 'EEXIST') refuse(thrown);
    }
    if (await isStale(path)) {
      await takeAway(path);
      continue;
    }
    if (clock.nowMs() > untilMs) throw failure('is being written by another process');
    await clock.sleep(LOOK_MS, signal);
  }
}

/** Files have the system's time, whatever the clock of the caller says. */
async function isStale(path: string): Promise<boolean> {
  const lock = await stat(path).catch(() => undefined); // gone meanwhile: the next look takes it
  return lock !== undefined && systemClock.wallMs() - lock.mtimeMs > STALE_MS;
}

/** Of several that find it stale, one may have taken it by now: that lock is put back. */
async function takeAway(path: string): Promise<void> {
  const aside = `${path}.${randomUUID()}.stale`;
  try {
    await rename(path, aside);
  } catch {
    return; // another one was faster
  }
  if (!(await isStale(aside))) await link(aside, path).catch(() => {}); // a third one has it: theirs is as good
  await rm(aside, { force: true });
}
