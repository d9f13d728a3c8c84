import type { KeyRecord, KeyStore } from '../../shared/access/index.ts';
import { idIsTaken, type KeyChange, oldestFirst } from '../../shared/access/keys/key-store.ts';

/** Keeps keys in this process. */
export class MemoryKeyStore implements KeyStore {
  readonly #records = new Map<string, KeyRecord>();

  async get(id: string, signal?: AbortSignal): Promise<KeyRecord | undefined> {
    signal?.throwIfAborted();
    return this.#records.get(id);
  }

  async put(record: KeyRecord, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    if (this.#records.has(record.id)) throw idIsTaken(record.id);
    this.#records.set(record.id, record);
  }

  async list(signal?: AbortSignal): Promise<readonly KeyRecord[]> {
    signal?.throwIfAborted();
    return oldestFirst([...this.#records.values()]);
  }

  async update(id: string, change: KeyChange, signal?: AbortSignal): Promise<KeyRecord | undefined> {
    signal?.throwIfAborted();
    const record = this.#records.get(id);
    if (record === undefined) return undefined;
    const changed = change(record);
    this.#records.set(id, changed);
    return changed;
  }

  async delete(id: string, signal?: AbortSignal): Promise<boolean> {
    signal?.throwIfAborted();
    return this.#records.delete(id);
  }

  close(): void {
    this.#records.clear();
  }
}
