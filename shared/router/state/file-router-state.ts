import { randomBytes } from 'node:crypto';
import { mkdir, open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { encodeSegment } from '../../planes/index.ts';
import { isRecord } from '../../records/index.ts';
import {
  type LeaseRow,
  type RouterState,
  RouterStateError,
  type SnapshotPlace,
  type SnapshotPointer,
  type StateName,
} from './router-state.ts';

export interface FileRouterStateOptions {
  /** Made when it is missing; of this user alone. */
  readonly folder: string;
  readonly clock: Clock;
}

/** Longest time of one call. */
const OPERATION_MS_MAX = 3000;
/** Between two looks whether somebody else has finished. */
const RETRY_MS = 5;
/** Whoever is seen to hold a file for longer has died over it: what is done in it takes a few milliseconds. */
const STALE_MS = 2000;

type Row = Readonly<Record<string, unknown>>;

/**
 * Router state in a folder that the processes of one machine share: a file a row, and beside it, while somebody changes it, a
 * file that only one can make.
 *
 *   {folder}/lease%2Fns%2Findex.json    {folder}/lease%2Fns%2Findex.lock
 */
export class FileRouterState implements RouterState {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  /** Locks of others, and turns at removing them, one of each a row: since when it was seen (monotonic), as wall clocks may be set meanwhile. */
  readonly #seen = new Map<string, { readonly stamp: string; readonly sinceMs: number }>();

  constructor({ folder, clock }: FileRouterStateOptions) {
    this.#folder = folder;
    this.#clock = clock;
  }

  nowMs(): number {
    return this.#clock.wallMs();
  }

  async readLease(lease: StateName, signal: AbortSignal): Promise<LeaseRow | undefined> {
    return this.#guarded(signal, async () => leaseOf(await this.#read(fileOf('lease', lease))));
  }

  takeLease(...args: Parameters<RouterState['takeLease']>): Promise<LeaseRow | undefined> {
    const [lease, { holder, ttlMs, seenFence }, signal] = args;
    return this.#changeLease(lease, signal, (present) =>
      present?.fence === seenFence ? this.#held(holder, ttlMs, (seenFence ?? 0) + 1) : undefined,
    );
  }

  renewLease(...args: Parameters<RouterState['renewLease']>): Promise<LeaseRow | undefined> {
    const [lease, holder, ttlMs, signal] = args;
    return this.#changeLease(lease, signal, (present) =>
      present?.holder === holder ? this.#held(holder, ttlMs, present.fence + 1) : undefined,
    );
  }

  async endLease(lease: StateName, holder: string, signal: AbortSignal): Promise<void> {
    await this.#changeLease(lease, signal, (present) =>
      present?.holder === holder ? { ...present, holder: '', fence: present.fence + 1, expiresAtMs: 0 } : undefined,
    );
  }

  async readPointer(pointer: StateName, signal: AbortSignal): Promise<SnapshotPointer | undefined> {
    return this.#guarded(signal, async () => pointerOf(await this.#read(fileOf('pointer', pointer))));
  }

  async movePointer(...args: Parameters<RouterState['movePointer']>): Promise<boolean> {
    const [pointer, { to, fence, seen }, signal] = args;
    const moved = await this.#change(fileOf('pointer', pointer), signal, (row) => {
      const present = pointerOf(row);
      if (present?.version !== seen?.version || (present?.fence ?? fence) > fence) return undefined;
      const { createdAt, sequence, object } = to;
      const previous = present && { createdAt: present.createdAt, sequence: present.sequence, object: present.object };
      return { createdAt, sequence, object, fence, version: (present?.version ?? 0) + 1, previous };
    });
    return moved !== undefined;
  }

  async dropPointer(pointer: StateName, signal: AbortSignal): Promise<void> {
    const file = fileOf('pointer', pointer);
    await this.#locked(file, signal, () => rm(join(this.#folder, `${file}.json`), { force: true }));
  }

  close(): void {
    this.#closing.abort(new RouterStateError('closed', 'this handle of the router state was closed'));
  }

  #held(holder: string, ttlMs: number, fence: number): LeaseRow {
    return { holder, ttlMs, fence, expiresAtMs: this.nowMs() + ttlMs };
  }

  #changeLease(
    lease: StateName,
    signal: AbortSignal,
    change: (present: LeaseRow | undefined) => LeaseRow | undefined,
  ): Promise<LeaseRow | undefined> {
    return this.#change(fileOf('lease', lease), signal, (row) => change(leaseOf(row)));
  }

  /** Writes what `change` makes of the row, if it makes anything. */
  #change<T extends object>(
    file: string,
    signal: AbortSignal,
    change: (row: Row | undefined) => T | undefined,
  ): Promise<T | undefined> {
    return this.#locked(file, signal, async (isHeld) => {
      const changed = change(await this.#read(file));
      if (changed === undefined) return undefined;
      if (!(await isHeld())) throw new Error('it was taken over by somebody else, as this process stood still');
      await this.#write(file, JSON.stringify(changed));
      return changed;
    });
  }

  /** Does `work` while nobody else changes the row, or did so after this process had stood still for long. */
  #locked<T>(file: string, signal: AbortSignal, work: (isHeld: () => Promise<boolean>) => Promise<T>): Promise<T> {
    return this.#guarded(signal, async (bounded) => {
      const lock = join(this.#folder, `${file}.lock`);
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      let own = await this.#makeLock(lock);
      while (own === undefined) {
        await this.#clock.sleep(RETRY_MS, bounded);
        own = await this.#makeLock(lock);
      }
      const isHeld = async (): Promise<boolean> => (await stampOf(lock)) === own;
      try {
        return await work(isHeld);
      } finally {
        if (await isHeld()) await rm(lock, { force: true });
      }
    });
  }

  /** The stamp of the lock that was made; undefined while somebody else has it. One that was left behind is removed. */
  async #makeLock(lock: string): Promise<string | undefined> {
    const own = await createFile(lock);
    if (own !== undefined) {
      this.#seen.delete(lock);
      return own;
    }
    const stamp = await stampOf(lock);
    if (stamp !== undefined && this.#isStale(lock, stamp)) await this.#removeLeft(lock, stamp);
    return undefined;
  }

  /** Removes the lock that was left behind, and none that was made since: of several that found it one does, and looks again before. */
  async #removeLeft(lock: string, stamp: string): Promise<void> {
    const turn = `${lock}.${stamp}`;
    if ((await createFile(turn)) === undefined) {
      const left = await stampOf(turn);
      if (left !== undefined && this.#isStale(`${lock}.`, `${stamp} ${left}`)) await rm(turn, { force: true });
      return;
    }
    try {
      if ((await stampOf(lock)) === stamp) await rm(lock, { force: true });
    } finally {
      await rm(turn, { force: true });
    }
  }

  /** @param place of the row that `stamp` stands at; another one that stands there is seen anew */
  #isStale(place: string, stamp: string): boolean {
    const nowMs = this.#clock.nowMs();
    const seen = this.#seen.get(place);
    if (seen?.stamp === stamp) return nowMs - seen.sinceMs >= STALE_MS;
    this.#seen.set(place, { stamp, sinceMs: nowMs });
    return false;
  }

  async #read(file: string): Promise<Row | undefined> {
    try {
      const value: unknown = JSON.parse(await readFile(join(this.#folder, `${file}.json`), 'utf8'));
      return isRecord(value) ? value : undefined;
    } catch (error) {
      if (codeOf(error) === 'ENOENT' || error instanceof SyntaxError) return undefined; // nobody else writes there
      throw error;
    }
  }

  /** Through a temporary file, so that no reader ever sees a part. */
  async #write(file: string, text: string): Promise<void> {
    const temporary = join(this.#folder, `.tmp_${randomBytes(8).toString('hex')}`);
    try {
      await writeFile(temporary, text, { flag: 'wx', mode: 0o600 });
      await rename(temporary, join(this.#folder, `${file}.json`));
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  }

  /** Ends within the deadline, and says what went wrong as a failure of the state. */
  async #guarded<T>(signal: AbortSignal, work: (bounded: AbortSignal) => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    this.#closing.signal.throwIfAborted();
    const late = new AbortController();
    const timer = this.#clock.after(OPERATION_MS_MAX, () => late.abort(new Error('it is held by somebody else')));
    try {
      return await work(AbortSignal.any([signal, this.#closing.signal, late.signal]));
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof RouterStateError) throw error;
      throw new RouterStateError('unavailable', `router state in ${this.#folder}: ${reasonOf(error)}`, error);
    } finally {
      timer.cancel();
    }
  }
}

function fileOf(kind: 'lease' | 'pointer', { namespace, name }: StateName): string {
  return [kind, namespace, name].map(encodeSegment).join('%2F');
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

function leaseOf(row: Row | undefined): LeaseRow | undefined {
  if (row === undefined) return undefined;
  const { holder, fence, expiresAtMs, ttlMs } = row;
  const isWhole = typeof holder === 'string' && [fence, expiresAtMs, ttlMs].every((value) => typeof value === 'number');
  return isWhole ? ({ holder, fence, expiresAtMs, ttlMs } as LeaseRow) : undefined;
}

function pointerOf(row: Row | undefined): SnapshotPointer | undefined {
  const place = placeOf(row);
  if (row === undefined || place === undefined) return undefined;
  const { fence, version, previous } = row;
  if (typeof fence !== 'number' || typeof version !== 'number') return undefined;
  return { ...place, fence, version, previous: placeOf(previous) };
}

function placeOf(value: unknown): SnapshotPlace | undefined {
  if (!isRecord(value)) return undefined;
  const { createdAt, sequence, object } = value;
  if (typeof createdAt !== 'string' || typeof sequence !== 'number' || typeof object !== 'string') return undefined;
  return { createdAt, sequence, object };
}

/** Makes the file, and returns its stamp; undefined where there is one. */
async function createFile(path: string): Promise<string | undefined> {
  try {
    const handle = await open(path, 'wx', 0o600);
    try {
      return stampIn(await handle.stat());
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    return undefined;
  }
}

/** What tells a file from another one that has its name later; undefined where there is none. */
async function stampOf(path: string): Promise<string | undefined> {
  try {
    return stampIn(await stat(path));
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
    return undefined;
  }
}

function stampIn({ ino, ctimeMs }: { readonly ino: number; readonly ctimeMs: number }): string {
  return `${ino}-${ctimeMs}`;
}
