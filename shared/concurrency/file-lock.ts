import { type FileHandle, mkdir, open, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Clock, Timer } from '../clock/index.ts';

const MODE = 0o600;
const FOLDER_MODE = 0o700;
const WAIT_MS_MAX = 5000;
const LOOK_MS = 20;
const LEFT_MS = 4000;
/** Beats of a holder within the time after which its lock counts as left. */
const BEATS = 4;

export interface FileLockOptions {
  /** Of the lock file, whose folder is made if it is missing. */
  readonly path: string;
  readonly clock: Clock;
  /** How long another holder is waited for. @default 5000 */
  readonly waitMsMax?: number;
  /** A lock that has been seen unchanged for as long was left by a process that died. @default 4000 */
  readonly leftMs?: number;
  /** The error that is thrown if the lock cannot be had, or was lost. */
  failure(what: string, cause?: unknown): Error;
}

/** Throws if the lock is no longer this process's, which may have stood still for long. To be asked right before what others see. */
export type StillHeld = () => Promise<void>;

/** What was seen of a file, and since when on this process's own clock. */
interface Watched {
  readonly file: string;
  readonly mark: string;
  readonly sinceMs: number;
}

/**
 * A lock between the processes of one machine: a file that only one can make. Its holder touches it while it works, so a waiter
 * tells one that was left behind by its own monotonic clock: wall clocks and times of files may be set meanwhile.
 *
 * A left lock is removed by whoever makes the file `{lock}.{mark}`, whose mark is that of the lock it found. So of several
 * waiters one removes it, and none removes the lock that was made next. A turn that was left is removed in the same way.
 */
export class FileLock {
  readonly #options: FileLockOptions;
  readonly #leftMs: number;
  /** The lock and, deeper, the turns at removing it. Kept between waits: a mark that is the same again has not changed meanwhile. */
  readonly #watched: Watched[] = [];

  constructor(options: FileLockOptions) {
    this.#options = options;
    this.#leftMs = options.leftMs ?? LEFT_MS;
  }

  /** Does `work` while no other process holds the lock. Another holder is waited for, within the bound. */
  async hold<T>(signal: AbortSignal | undefined, work: (stillHeld: StillHeld) => Promise<T>): Promise<T> {
    const { path, failure } = this.#options;
    const handle = await this.#take(signal);
    // While the file is open no other one gets its number.
    const isHeld = async (): Promise<boolean> => (await inodeOf(path)) === (await handle.stat({ bigint: true })).ino;
    const beats = this.#beat(handle);
    try {
      return await work(async () => {
        if (!(await isHeld())) throw failure('was taken by another process while this one stood still');
      });
    } finally {
      beats.cancel();
      // What cannot be removed is found to be left: the outcome of the work stands.
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
      handle.utimes(nowSecs, nowSecs).catch(() => {}); // others find the lock left, and the work is told so
    });
  }

  /** Looks at the lock and at the turns at removing it, and removes the last of them if it was left. */
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

/** Makes the file; undefined if it is there. */
async function create(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, 'wx', MODE);
  } catch (thrown) {
    if (codeOf(thrown) !== 'EEXIST') throw thrown;
    return undefined;
  }
}

/** What tells a file from itself after a touch, and from another one that has its name later; undefined if there is none. */
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
