import type { Clock } from '../../../clock/index.ts';
import { LIMITS, type LimitName } from '../../../errors/index.ts';
import { MemoryResponseStore, type StoredResponse } from '../../../responses/index.ts';
import type { ResponseMemory } from '../../http/exchange/exchange.ts';

/** How long a response is kept, in milliseconds: longer than a connection lives. */
const TTL_MS = 2 * 60 * 60 * 1000;
/** Divisor of the memory of all connections that gives the share of one. */
const SHARE = 8;

/**
 * Creates the store in which the connections of a server keep their most recent responses. It has one bound for all of
 * them, and drops the oldest first.
 */
export function createSocketMemories(clock: Clock, onLimit: (limit: LimitName) => void): MemoryResponseStore {
  const bytesMax = LIMITS.websocket_memory_bytes.max;
  const onEvict = (): void => onLimit('websocket_memory_bytes');
  return new MemoryResponseStore({ clock, ttlMs: TTL_MS, bytesMax, recordBytesMax: bytesMax / SHARE, onEvict });
}

/** The most recent response of one connection, if it was not stored. */
export class SocketMemory implements ResponseMemory {
  readonly #store: MemoryResponseStore;
  /** Owner under which no other connection finds the response. */
  readonly #owner: string;
  #id: string | undefined;
  #isClosed = false;

  constructor(store: MemoryResponseStore, owner: string) {
    this.#store = store;
    this.#owner = owner;
  }

  async get(id: string): Promise<StoredResponse | undefined> {
    return id === this.#id ? this.#store.get(id, this.#owner) : undefined;
  }

  async put(response: StoredResponse): Promise<void> {
    await this.forget();
    if (this.#isClosed) return;
    await this.#store.put({ ...response, owner: this.#owner });
    this.#id = response.id;
    if (this.#isClosed) await this.forget(); // the connection has closed meanwhile
  }

  /** Drops the response, so that no turn follows a failed one. */
  async forget(): Promise<void> {
    const id = this.#id;
    this.#id = undefined;
    if (id !== undefined) await this.#store.delete(id, this.#owner);
  }

  close(): void {
    this.#isClosed = true;
    void this.forget(); // a store in memory does not fail
  }
}
