import type { Clock } from '../clock/index.ts';
import {
  type ResponseStore,
  ResponseStoreError,
  readRecord,
  type StoredResponse,
  writeRecord,
} from './response-store.ts';

export interface MemoryResponseStoreOptions {
  readonly clock: Clock;
  /** Time to live of a record. */
  readonly ttlMs: number;
  /** Limit of all records together, in UTF-8 bytes of their JSON; the oldest leave first. */
  readonly bytesMax: number;
  /** Limit of one record, so that it cannot push out all others. @default bytesMax */
  readonly recordBytesMax?: number;
  /** Called with a record that left before its time. */
  readonly onEvict?: (id: string) => void;
}

interface Kept {
  readonly owner: string;
  /** A text holds no reference to objects that the caller goes on using, and its size is what it costs. */
  readonly text: Buffer;
  readonly expiresAtMs: number;
}

/**
 * Keeps responses in this process.
 *
 *   kept (Map, oldest write first)   [ a | b | c | d ]
 *                                      ^ expires first and is evicted first: all live equally long
 */
export class MemoryResponseStore implements ResponseStore {
  readonly #options: MemoryResponseStoreOptions;
  readonly #kept = new Map<string, Kept>();
  #bytes = 0;

  constructor(options: MemoryResponseStoreOptions) {
    this.#options = options;
  }

  /** Bytes of all records in the store. */
  get sizeBytes(): number {
    return this.#bytes;
  }

  async put(response: StoredResponse, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const { clock, ttlMs, bytesMax, recordBytesMax = bytesMax } = this.#options;
    const { id, owner, ...body } = response;
    this.#requireFree(id);
    const text = await writeRecord(body);
    this.#requireFree(id); // no record had this id a turn ago
    if (text.length > recordBytesMax) {
      const message = `response ${id} has ${text.length} bytes, the store takes ${recordBytesMax}`;
      throw new ResponseStoreError('too_large', message);
    }
    this.#kept.set(id, { owner, text, expiresAtMs: clock.nowMs() + ttlMs });
    this.#bytes += text.length;
    this.#makeRoom();
  }

  async get(id: string, owner: string, signal?: AbortSignal): Promise<StoredResponse | undefined> {
    signal?.throwIfAborted();
    const kept = this.#find(id, owner);
    if (kept === undefined) return undefined;
    return { id, owner, ...(await readRecord(kept.text)) };
  }

  async delete(id: string, owner: string, signal?: AbortSignal): Promise<boolean> {
    signal?.throwIfAborted();
    if (this.#find(id, owner) === undefined) return false;
    this.#drop(id);
    return true;
  }

  close(): void {
    this.#kept.clear();
    this.#bytes = 0;
  }

  /** @throws ResponseStoreError `conflict` */
  #requireFree(id: string): void {
    this.#dropExpired();
    if (this.#kept.has(id)) throw new ResponseStoreError('conflict', `response ${id} already exists`);
  }

  #find(id: string, owner: string): Kept | undefined {
    this.#dropExpired();
    const kept = this.#kept.get(id);
    return kept?.owner === owner ? kept : undefined;
  }

  #dropExpired(): void {
    const nowMs = this.#options.clock.nowMs();
    for (const [id, { expiresAtMs }] of this.#kept) {
      if (expiresAtMs > nowMs) return; // all later records were written later
      this.#drop(id);
    }
  }

  #makeRoom(): void {
    for (const id of this.#kept.keys()) {
      if (this.#bytes <= this.#options.bytesMax) return;
      this.#drop(id);
      this.#options.onEvict?.(id);
    }
  }

  #drop(id: string): void {
    const kept = this.#kept.get(id);
    if (kept === undefined) return;
    this.#kept.delete(id);
    this.#bytes -= kept.text.length;
  }
}
