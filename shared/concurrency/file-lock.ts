import { type FileHandle, mkdir, open, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Clock, Timer } from '../clock/index.ts';

const MODE = 0o600;
const FOLDER_MODE = 0o700;
const WAIT_MS_MAX = 5000;
const LOOK_MS = 20;
const LEFT_MS = 4000;
/** Number of beats of a holder within the time after which its lock counts as left behind. */
const BEATS = 4;

export interface FileLockOptions {
  /** Path of the lock file. Its folder is created if it is missing. */
  readonly path: string;
  readonly clock: Clock;
  /** Longest wait for another holder. @default 5000 */
  readonly waitMsMax?: number;
  /** Time without a change after which a lock counts as left behind by a process that died. @default 4000 */
  readonly leftMs?: number;
  /** Makes the error to throw if the lock cannot be taken, or was lost. */
  failure(what: string, cause?: unknown): Error;
}

/**
 * Throws if this process no longer holds the lock, for example because it stood still for long. Call it right before
 * changes that others see.
 */
export type StillHeld = () => Promise<void>;

/** Marks of a file, and since when it has had them by this process's own clock. */
interface Watched {
  readonly file: string;
  readonly mark: string;
  readonly sinceMs: number;
}

/**
 * A lock between the processes of one machine: a file that only one of them can create. The holder touches it while it
 * works, so a waiter can tell a lock that was left behind, by its own monotonic clock: wall clocks and file times may
 * be set meanwhile.
 *
 * A waiter may remove such a lock after it has created the file `{lock}.{mark}`, with the mark of the lock that it
 * found. So only one of several waiters removes it, and none removes the next lock. If that file is left behind in
 * turn, it is removed in the same way.
 */
export class FileLock {
  readonly #options: FileLockOptions;
  readonly #leftMs: number;
  /**
   * The lock and, deeper, the files of waiters that want to remove it. Kept between waits: a mark that is the same
   * again has not changed meanwhile.
   */
  readonly #watched: Watched[] = [];

  constructor(options: FileLockOptions) {
    this.#options = options;
    this.#leftMs = options.leftMs ?? LEFT_MS;
  }

  /** Does `work` while no other process holds the lock. Waits for another holder, within the limit. */
  async hold<T>(signal: AbortSignal | undefined, work: (stillHeld: StillHeld) => Promise<T>): Promise<T> {
    const { path, failure } = this.#options;
    const handle = await this.#take(signal);
    // While the file is open, no other file gets its inode number.
    const isHeld = async (): Promise<boolean> => (await inodeOf(path)) === (await handle.stat({ bigint: true })).ino;
    const beats = this.#beat(handle);
    try {
      return await work(async () => {
        if (!(await isHeld())) throw failure('was taken by another process while this one stood still');
      });
    } finally {
      beats.cancel();
      // If the file cannot be removed, others find it left behind; the result of the work stands.
      if (await isHeld().catch(() => false)) await rm(path, { force: true }).catch(() => {});
      await handle.close();
    }
  }

  async #take(signal: AbortSignal | undefined): Promise<FileHandle> {
    const { path, clock, waitMsMax = WAIT_MS_MAX, failure } = this.#options;
    const untilMs = clock.nowMs() + waitMsMax;
    try {
      await mkdir(dirname(path), { recursive: true, mode: FOLDER_MODE });
      for (;;) {
        signal?.throwIfAborted();
        const handle = await create(path);
        if (handle !== undefined) return handle;
        await this.#removeLeft();
        if (clock.nowMs() > untilMs) break;
        await clock.sleep(LOOK_MS, signal);
      }
    } catch (thrown) {
      signal?.throwIfAborted();
      throw failure('cannot be written', thrown);
    }
    throw failure('is being written by another process');
  }

  #beat(handle: FileHandle): Timer {
    const { clock } = this.#options;
    return clock.every(this.#leftMs / BEATS, () => {
      const nowSecs = clock.wallMs() / 1000;
      // others find the lock left behind, and `stillHeld` tells the work
      handle.utimes(nowSecs, nowSecs).catch(() => {});
    });
  }

  /** Checks the lock and the files of its removers, and removes the last of them if it was left behind. */
  async #removeLeft(): Promise<void> {
    let file = this.#options.path;
    let mark = await markOf(file);
    for (let depth = 0; mark !== undefined; depth++) {
      const isLeft = this.#isLeft(depth, file, mark);
      const turn = `${file}.${mark}`;
      const next = await markOf(turn);
      if (next === undefined && isLeft) await removeInTurn(turn, file, mark);
      file = turn;
      mark = next;
    }
  }

  #isLeft(depth: number, file: string, mark: string): boolean {
    const nowMs = this.#options.clock.nowMs();
    const watched = this.#watched[depth];
    if (watched?.file === file && watched.mark === mark) return nowMs - watched.sinceMs >= this.#leftMs;
    this.#watched[depth] = { file, mark, sinceMs: nowMs };
    return false;
  }
}

async function removeInTurn(turn: string, file: string, mark: string): Promise<void> {
  const handle = await create(turn);
  if (handle === undefined) return; // another process was faster
  try {
    if ((await markOf(file)) === mark) await rm(file, { force: true });
  } finally {
    await handle.close();
    await rm(turn, { force: true });
  }
}

/** Creates the file. Returns undefined if it exists. */
async function create(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, 'wx', MODE);
  } catch (thrown) {
    if (codeOf(thrown) !== 'EEXIST') throw thrown;
    return undefined;
  }
}

/**
 * Returns a mark that tells a file from itself after a touch, and from a later file of the same name. Returns undefined
 * if there is no file.
 */
async function markOf(path: string): Promise<string | undefined> {
  const facts = await factsOf(path);
  return facts && `${facts.ino}-${facts.ctimeNs}`;
}

async function inodeOf(path: string): Promise<bigint | undefined> {
  return (await factsOf(path))?.ino;
}

async function factsOf(path: string): Promise<{ readonly ino: bigint; readonly ctimeNs: bigint } | undefined> {
  try {
    return await stat(path, { bigint: true });
  } catch (thrown) {
    if (codeOf(thrown) !== 'ENOENT') throw thrown;
    return undefined;
  }
}

function codeOf(thrown: unknown): string | undefined {
  return (thrown as NodeJS.ErrnoException).code;
}
