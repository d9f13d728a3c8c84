import { randomUUID } from 'node:crypto';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, systemClock } from '../../clock/index.ts';
import { FileLock, Semaphore, type StillHeld, turnOfItsOwn } from '../../concurrency/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { FileLeases } from './file-leases.ts';
import { MemoryPlannerStore } from './memory-store.ts';
import { type Commit, type DecisionRecord, type PlannerStore, PlannerStoreError } from './types.ts';

const FILE = 'planner.jsonl';
const MODE = 0o600;
/** Bytes at which the log is written anew without forgotten entries. */
const LOG_BYTES_MAX = 8 * 1024 * 1024;
/** Characters of the log that are replayed in one turn of the event loop: a frontend with streams may read it. */
const TURN_CHARACTERS = 256 * 1024;
/** Longest log in bytes; a longer one was not written by this store. */
const READ_BYTES_MAX = 64 * 1024 * 1024;

/** Line of the log: a call that changed something, or everything as it was. */
type Line = readonly ['all', unknown] | readonly [Change, ...unknown[]];
type Change = 'commit' | 'moved' | 'acknowledge' | 'budget';

/**
 * Store in a folder of one machine, for several processes: `planner.jsonl`, a line a change. Each process replays the
 * lines into a store in memory. A writer holds a lock. A line that a crash has cut short does not count.
 */
export class FilePlannerStore implements PlannerStore {
  readonly name = 'file';
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #lock: FileLock;
  readonly #leases: FileLeases;
  /** Lets one call of this process at a time follow the log: two would count its lines twice. */
  readonly #follower = new Semaphore(1);
  #played: MemoryPlannerStore;
  #ino = -1;
  #offset = 0;

  constructor(folder: string, clock: Clock = systemClock) {
    this.#folder = folder;
    this.#clock = clock;
    this.#played = new MemoryPlannerStore(clock);
    const failure = (what: string, cause?: unknown): PlannerStoreError => this.#failure('unavailable', what, cause);
    this.#lock = new FileLock({ path: `${this.#path}.lock`, clock, failure });
    this.#leases = new FileLeases(join(folder, 'leases.json'), { lock: this.#lock, clock, failure });
  }

  readState: PlannerStore['readState'] = (...args) => this.#read((store) => store.readState(...args), args[1]);
  decisions: PlannerStore['decisions'] = (...args) => this.#read((store) => store.decisions(...args), args[2]);
  decision: PlannerStore['decision'] = (...args) => this.#read((store) => store.decision(...args), args[2]);
  ticks: PlannerStore['ticks'] = (...args) => this.#read((store) => store.ticks(...args), args[2]);
  acknowledged: PlannerStore['acknowledged'] = (...args) => this.#read((store) => store.acknowledged(...args), args[1]);
  reservations: PlannerStore['reservations'] = (...args) => this.#read((store) => store.reservations(...args), args[0]);
  groups: PlannerStore['groups'] = (...args) => this.#read((store) => store.groups(...args), args[0]);

  commit: PlannerStore['commit'] = (group, commit, signal) =>
    this.#change(
      signal,
      () => ['commit', group, logged(commit)],
      (store) => store.commit(group, commit, signal),
    );

  move: PlannerStore['move'] = (group, seen, change, signal) =>
    this.#change(
      signal,
      (next) => ['moved', group, next],
      (store) => store.move(group, seen, change, signal),
    );

  acknowledge: PlannerStore['acknowledge'] = async (group, decisionId, signal) => {
    await this.#change(
      signal,
      () => ['acknowledge', group, decisionId],
      async (store) => {
        await store.acknowledge(group, decisionId, signal);
        return true;
      },
    );
  };

  reserve: PlannerStore['reserve'] = (pools, gpusMax, signal) =>
    this.#change(
      signal,
      () => ['budget', pools, gpusMax],
      (store) => store.reserve(pools, gpusMax, signal),
    );

  takeLease: PlannerStore['takeLease'] = (...args) => this.#leases.take(...args);
  renewLease: PlannerStore['renewLease'] = (...args) => this.#leases.renew(...args);
  releaseLease: PlannerStore['releaseLease'] = (...args) => this.#leases.release(...args);

  async close(): Promise<void> {}

  get #path(): string {
    return join(this.#folder, FILE);
  }

  async #read<T>(read: (store: MemoryPlannerStore) => Promise<T>, signal: AbortSignal): Promise<T> {
    await this.#follower.run(() => this.#catchUp(), signal);
    return read(this.#played);
  }

  /** Reads under the lock what others wrote, makes the change, and appends its line if it changed something. */
  async #change<T>(
    signal: AbortSignal,
    lineOf: (outcome: T) => Line,
    change: (store: MemoryPlannerStore) => Promise<T>,
  ): Promise<T> {
    signal.throwIfAborted();
    const make = async (stillHeld: StillHeld): Promise<T> => {
      try {
        await this.#catchUp();
        const outcome = await change(this.#played);
        if (outcome !== false && outcome !== undefined) await this.#append(lineOf(outcome), stillHeld);
        return outcome;
      } catch (thrown) {
        this.#forget(); // a change that was replayed but not written does not hold
        throw thrown;
      }
    };
    return this.#lock.hold(signal, (stillHeld) => this.#follower.run(() => make(stillHeld), signal));
  }

  #forget(): void {
    this.#ino = -1;
    this.#offset = 0;
    this.#played = new MemoryPlannerStore(this.#clock);
  }

  async #catchUp(): Promise<void> {
    const file = await this.#openLog('r');
    if (file === undefined) return this.#forget();
    try {
      const { ino, size } = await file.stat();
      if (ino !== this.#ino || size < this.#offset) {
        this.#forget();
        this.#ino = ino;
      }
      if (size > READ_BYTES_MAX) throw this.#failure('misconfigured', `has ${size} bytes, more than ${READ_BYTES_MAX}`);
      if (size === this.#offset) return;
      const { buffer, bytesRead } = await file.read(
        Buffer.alloc(size - this.#offset),
        0,
        size - this.#offset,
        this.#offset,
      );
      const end = buffer.subarray(0, bytesRead).lastIndexOf(0x0a) + 1;
      await this.#playAll(buffer.subarray(0, end).toString().split('\n'));
      this.#offset += end;
    } finally {
      await file.close();
    }
  }

  async #playAll(lines: readonly string[]): Promise<void> {
    let played = 0;
    for (const text of lines) {
      if (text !== '') await this.#play(text);
      played += text.length;
      if (played < TURN_CHARACTERS) continue;
      played = 0;
      await turnOfItsOwn();
    }
  }

  async #play(text: string): Promise<void> {
    let line: Line;
    try {
      line = JSON.parse(text) as Line;
    } catch {
      return; // a crash cut this line short, and another line follows it
    }
    const store = this.#played;
    if (line[0] === 'all') return store.restore(line[1]);
    const [name, ...args] = line;
    const play: Partial<Record<string, (...args: never[]) => Promise<unknown>>> = {
      commit: (group: string, { look: tick, ...commit }: LoggedCommit) =>
        store.commit(group, { ...commit, tick }, NEVER),
      moved: async (group: string, record: DecisionRecord) => store.put(group, record),
      acknowledge: store.acknowledge,
      budget: store.reserve,
      // as earlier versions wrote them
      move: async (group: string, seen: DecisionRecord, to: object) => store.put(group, { ...seen, ...to }),
      reserve: (pool: string, gpus: number, gpusMax: number) => store.reserve({ [pool]: gpus }, gpusMax, NEVER),
    };
    await (play[name] as ((...args: unknown[]) => Promise<unknown>) | undefined)?.call(store, ...args, NEVER);
  }

  async #append(line: Line, stillHeld: StillHeld): Promise<void> {
    if (this.#offset > LOG_BYTES_MAX) return this.#rewrite(stillHeld);
    const file = await this.#openLog('a');
    if (file === undefined) throw this.#failure('unavailable', 'cannot be written');
    try {
      const { ino, size } = await file.stat();
      const torn = size > this.#offset ? '\n' : ''; // ends a line that a crash has cut short
      const text = `${torn}${JSON.stringify(line)}\n`;
      await stillHeld();
      await file.appendFile(text);
      this.#ino = ino;
      this.#offset = size + Buffer.byteLength(text);
    } catch (thrown) {
      if (thrown instanceof PlannerStoreError) throw thrown;
      throw this.#failure('unavailable', 'cannot be written', thrown);
    } finally {
      await file.close();
    }
  }

  async #rewrite(stillHeld: StillHeld): Promise<void> {
    const path = `${this.#path}.${randomUUID()}.tmp`;
    const text = `${JSON.stringify(['all', this.#played.dump()])}\n`;
    try {
      const file = await open(path, 'wx', MODE);
      try {
        await file.writeFile(text);
        await file.sync();
        this.#ino = (await file.stat()).ino;
      } finally {
        await file.close();
      }
      await stillHeld();
      await rename(path, this.#path);
      this.#offset = Buffer.byteLength(text);
    } catch (thrown) {
      await rm(path, { force: true });
      if (thrown instanceof PlannerStoreError) throw thrown;
      throw this.#failure('unavailable', 'cannot be written', thrown);
    }
  }

  /** Undefined = there is none. */
  async #openLog(flags: 'r' | 'a'): Promise<FileHandle | undefined> {
    try {
      return await open(this.#path, flags, MODE);
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code === 'ENOENT' && flags === 'r') return undefined;
      throw this.#failure('unavailable', flags === 'r' ? 'cannot be read' : 'cannot be written', thrown);
    }
  }

  #failure(code: 'unavailable' | 'misconfigured', what: string, cause?: unknown): PlannerStoreError {
    const why = cause === undefined ? '' : `: ${reasonOf(cause)}`;
    return new PlannerStoreError(code, `planner log ${this.#path} ${what}${why} (STATOR_PLANNER_DIR)`, cause);
  }
}

const NEVER = new AbortController().signal;

/** A commit as lines of the log have it: they call a tick `look`. */
type LoggedCommit = Omit<Commit, 'tick'> & { readonly look?: Commit['tick'] };

function logged({ tick: look, ...commit }: Commit): LoggedCommit {
  return { ...commit, look };
}
