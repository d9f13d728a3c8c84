import { randomBytes } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../clock/index.ts';
import { FileLock, type StillHeld, withEither } from '../concurrency/index.ts';
import { reasonOf } from '../errors/index.ts';
import { encodeSegment } from '../planes/index.ts';
import { isRecord } from '../records/index.ts';
import {
  type LeaseRow,
  type RouterState,
  RouterStateError,
  type SnapshotPlace,
  type SnapshotPointer,
  type StateName,
} from './router-state.ts';

export interface FileRouterStateOptions {
  /** Folder that only this user can access. It is created if it is missing. */
  readonly folder: string;
  readonly clock: Clock;
}

/** Deadline for another process that is changing a row. */
const WAIT_MS_MAX = 3000;
/** Time after which the holder of a row's lock counts as dead. A change takes a few milliseconds. */
const LEFT_MS = 2000;

type Row = Readonly<Record<string, unknown>>;

/**
 * Router state in a folder that the processes of one machine share, with a file for each row. While a process changes a
 * row, a lock file lies beside it, which only one process can create.
 *
 *   {folder}/lease%2Fns%2Findex.json    {folder}/lease%2Fns%2Findex.lock
 */
export class FileRouterState implements RouterState {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  /** Locks by the file of the row. A process has only the few rows that its settings name. */
  readonly #locks = new Map<string, FileLock>();

  constructor({ folder, clock }: FileRouterStateOptions) {
    this.#folder = folder;
    this.#clock = clock;
  }

  /** Returns undefined, because the wall clock may be changed while others hold leases. */
  nowMs(): undefined {
    return undefined;
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
    return { holder, ttlMs, fence, expiresAtMs: this.#clock.wallMs() + ttlMs };
  }

  #changeLease(
    lease: StateName,
    signal: AbortSignal,
    change: (present: LeaseRow | undefined) => LeaseRow | undefined,
  ): Promise<LeaseRow | undefined> {
    return this.#change(fileOf('lease', lease), signal, (row) => change(leaseOf(row)));
  }

  /** Writes the new row that `change` returns, if it returns one. */
  #change<T extends object>(
    file: string,
    signal: AbortSignal,
    change: (row: Row | undefined) => T | undefined,
  ): Promise<T | undefined> {
    return this.#locked(file, signal, async (stillHeld) => {
      const changed = change(await this.#read(file));
      if (changed === undefined) return undefined;
      await stillHeld();
      await this.#write(file, JSON.stringify(changed));
      return changed;
    });
  }

  /** Runs `work` while no other process changes the row. */
  #locked<T>(file: string, signal: AbortSignal, work: (stillHeld: StillHeld) => Promise<T>): Promise<T> {
    const lock = this.#locks.get(file) ?? this.#newLock(file);
    this.#locks.set(file, lock);
    return this.#guarded(signal, (bounded) => lock.hold(bounded, work));
  }

  #newLock(file: string): FileLock {
    const path = join(this.#folder, `${file}.lock`);
    const failure = (what: string, cause?: unknown): Error =>
      new Error(`${file} ${what}${cause === undefined ? '' : `: ${reasonOf(cause)}`}`, { cause });
    return new FileLock({ path, clock: this.#clock, waitMsMax: WAIT_MS_MAX, leftMs: LEFT_MS, failure });
  }

  async #read(file: string): Promise<Row | undefined> {
    try {
      const value: unknown = JSON.parse(await readFile(join(this.#folder, `${file}.json`), 'utf8'));
      return isRecord(value) ? value : undefined;
    } catch (error) {
      if (codeOf(error) === 'ENOENT' || error instanceof SyntaxError) return undefined; // no other program writes there
      throw error;
    }
  }

  /** Writes through a temporary file, so that no reader ever sees a part. */
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

  /** Runs `work` and rejects with its failure as a `RouterStateError`. */
  async #guarded<T>(signal: AbortSignal, work: (bounded: AbortSignal) => Promise<T>): Promise<T> {
    try {
      return await withEither([signal, this.#closing.signal], (bounded) => {
        bounded.throwIfAborted();
        return work(bounded);
      });
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof RouterStateError) throw error;
      throw new RouterStateError('unavailable', `router state in ${this.#folder}: ${reasonOf(error)}`, error);
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
