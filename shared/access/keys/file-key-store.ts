import { randomUUID } from 'node:crypto';
import { chmod, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { type Clock, systemClock } from '../../clock/index.ts';
import { FileLock, type StillHeld } from '../../concurrency/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { isRecord } from '../../records/index.ts';
import { type KeyRecord, readKeyRecord } from './key-record.ts';
import { idIsTaken, type KeyChange, type KeyStore, KeyStoreError, oldestFirst } from './key-store.ts';

/** Largest size of the file. */
const FILE_BYTES_MAX = 16 * 1024 * 1024;
const MODE = 0o600;
const WRITABLE_BY_OTHERS = 0o022;

/** One state of the file: equal numbers mean equal content. */
interface Seen {
  readonly mark: string;
  readonly records: ReadonlyMap<string, KeyRecord>;
}

const NONE: Seen = { mark: '', records: new Map() };

/**
 * Keeps keys in a JSON file of the user: `{"keys":[...]}`. A rename replaces the whole file, so a reader sees either
 * the old or the new one; writers of all processes wait for each other. A missing file is a store without keys. The
 * store reads the file again when it has changed.
 */
export class FileKeyStore implements KeyStore {
  readonly #path: string;
  readonly #lock: FileLock;
  #seen: Seen = NONE;

  constructor(path: string, clock: Clock = systemClock) {
    this.#path = path;
    const failure = (what: string, cause?: unknown): KeyStoreError => this.#failure('unavailable', what, cause);
    this.#lock = new FileLock({ path: `${path}.lock`, clock, failure });
  }

  async get(id: string, signal?: AbortSignal): Promise<KeyRecord | undefined> {
    return (await this.#read(signal)).get(id);
  }

  async list(signal?: AbortSignal): Promise<readonly KeyRecord[]> {
    return oldestFirst([...(await this.#read(signal)).values()]);
  }

  put(record: KeyRecord, signal?: AbortSignal): Promise<void> {
    return this.#change(signal, (records) => {
      if (records.has(record.id)) throw idIsTaken(record.id);
      records.set(record.id, record);
    });
  }

  update(id: string, change: KeyChange, signal?: AbortSignal): Promise<KeyRecord | undefined> {
    return this.#change(signal, (records) => {
      const record = records.get(id);
      if (record === undefined) return undefined;
      const changed = change(record);
      records.set(id, changed);
      return changed;
    });
  }

  delete(id: string, signal?: AbortSignal): Promise<boolean> {
    return this.#change(signal, (records) => records.delete(id));
  }

  close(): void {
    this.#seen = NONE;
  }

  async #read(signal: AbortSignal | undefined): Promise<ReadonlyMap<string, KeyRecord>> {
    signal?.throwIfAborted();
    const facts = await stat(this.#path, { bigint: true }).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined;
      throw this.#failure('unavailable', 'cannot be read', error);
    });
    if (facts === undefined) return NONE.records;
    const mark = `${facts.ino}/${facts.size}/${facts.mtimeNs}`;
    if (mark === this.#seen.mark) return this.#seen.records;
    if ((Number(facts.mode) & WRITABLE_BY_OTHERS) !== 0) {
      throw this.#failure('misconfigured', 'is writable by other users: chmod 600 it');
    }
    if (facts.size > FILE_BYTES_MAX)
      throw this.#failure('misconfigured', `has ${facts.size} bytes, more than ${FILE_BYTES_MAX}`);
    const text = await readFile(this.#path, 'utf8').catch((error: unknown) => {
      throw this.#failure('unavailable', 'cannot be read', error);
    });
    const records = this.#parse(text);
    this.#seen = { mark, records };
    return records;
  }

  #parse(text: string): ReadonlyMap<string, KeyRecord> {
    try {
      const whole: unknown = JSON.parse(text);
      if (!isRecord(whole) || !Array.isArray(whole.keys)) throw new Error('it has no list "keys"');
      return new Map(whole.keys.map(readKeyRecord).map((record) => [record.id, record]));
    } catch (thrown) {
      throw this.#failure('misconfigured', 'is not a file of keys', thrown);
    }
  }

  async #change<T>(signal: AbortSignal | undefined, change: (records: Map<string, KeyRecord>) => T): Promise<T> {
    return this.#lock.hold(signal, async (stillHeld) => {
      const records = new Map(await this.#read(signal));
      const outcome = change(records);
      await this.#write([...records.values()], stillHeld);
      return outcome;
    });
  }

  async #write(keys: readonly KeyRecord[], stillHeld: StillHeld): Promise<void> {
    const path = `${this.#path}.${randomUUID()}.tmp`;
    try {
      const file = await open(path, 'wx', MODE);
      try {
        await file.writeFile(`${JSON.stringify({ keys }, undefined, 2)}\n`);
        await file.sync();
      } finally {
        await file.close();
      }
      await chmod(path, MODE); // whatever the umask of the process
      await stillHeld();
      await rename(path, this.#path);
    } catch (thrown) {
      await rm(path, { force: true });
      if (thrown instanceof KeyStoreError) throw thrown;
      throw this.#failure('unavailable', 'cannot be written', thrown);
    }
  }

  #failure(code: 'unavailable' | 'misconfigured', what: string, cause?: unknown): KeyStoreError {
    const why = cause === undefined ? '' : `: ${reasonOf(cause)}`;
    return new KeyStoreError(code, `keys file ${this.#path} ${what}${why} (STATOR_KEYS_FILE)`, cause);
  }
}
