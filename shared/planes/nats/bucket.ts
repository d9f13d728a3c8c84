import type { JetStreamManager } from '@nats-io/jetstream';
import type { ObjectInfo, ObjectStore, Objm } from '@nats-io/obj';
import { untilAborted, withDeadline } from '../../concurrency/index.ts';
import { reasonOf } from '../../errors/index.ts';
import {
  apiCodeOf,
  loadObjectStores,
  MESSAGE_NOT_FOUND,
  openJetStream,
  STREAM_NOT_FOUND,
  WRONG_LAST_SEQUENCE,
} from './library.ts';
import type { NatsBucketSettings, NatsConnections } from './types.ts';

const STALL_MS = 10_000;
const ORPHAN_MS_MAX = 3_600_000;

/**
 * A bucket of NATS' object store. The digest of an object is checked when the object is read. Calls wait for a
 * connection; they reject with the signal's reason if the signal aborts.
 */
export class NatsBucket {
  readonly #client: NatsConnections;
  readonly #settings: NatsBucketSettings;
  /**
   * Parts that no object names, by their subject, with the last part and the time since which it has been the last
   * (monotonic).
   */
  #orphans: ReadonlyMap<string, { readonly sequence: number; readonly sinceMs: number }> = new Map();

  constructor(client: NatsConnections, settings: NatsBucketSettings) {
    this.#client = client;
    this.#settings = settings;
  }

  /** Stores an object. Rejects if there is an object of that name. */
  async put(
    name: string,
    chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<void> {
    signal.throwIfAborted();
    const { stores, manager } = await this.#open(signal);
    const store = await untilAborted(stores.create(this.#settings.name, { replicas: this.#settings.replicas }), signal);
    await untilAborted(this.#clearOrphans(manager, store), signal);
    const known = await untilAborted(infoOf(store, name), signal);
    if (known !== null && !known.deleted) throw alreadyThere(name);
    // With the revision (that of the mark which a removed object left), the server refuses the second of two concurrent
    // writes.
    const previousRevision = known?.revision ?? 0;
    const parts = Symbol.asyncIterator in chunks ? chunks[Symbol.asyncIterator]() : chunks[Symbol.iterator]();
    try {
      await untilAborted(store.put({ name }, streamOf(parts, signal), { previousRevision }), signal);
    } catch (error) {
      throw apiCodeOf(error) === WRONG_LAST_SEQUENCE ? alreadyThere(name) : error;
    } finally {
      await parts.return?.(); // the library does not close the reader when it fails
    }
  }

  /** Returns an object; undefined if there is none. Rejects if the stored bytes are not the original ones. */
  async get(name: string, signal: AbortSignal): Promise<Uint8Array | undefined> {
    const store = await this.#find(signal);
    if (store === undefined) return undefined;
    if (!isThere(await untilAborted(infoOf(store, name), signal))) return undefined;
    const object = await untilAborted(store.get(name), signal);
    if (object === null) return undefined; // removed in between
    object.error.catch(() => {}); // the reader reports the same failure
    const bytes = new Uint8Array(object.info.size);
    const reader = object.data.getReader();
    let length = 0;
    try {
      for (;;) {
        const { done, value } = await this.#beforeStall(() => reader.read(), name, signal);
        if (done) break;
        if (length + value.length > bytes.length) throw new Error(`"${name}" is longer than its declared length`);
        bytes.set(value, length);
        length += value.length;
      }
    } catch (error) {
      reader.cancel().catch(() => {}); // it failed already
      throw error;
    }
    if (length !== bytes.length) throw new Error(`"${name}" has ${length} of ${bytes.length} bytes`);
    return bytes;
  }

  async list(signal: AbortSignal): Promise<readonly string[]> {
    const store = await this.#find(signal);
    if (store === undefined) return [];
    const infos = await untilAborted(store.list(), signal);
    return infos.map((info) => info.name).sort();
  }

  async remove(name: string, signal: AbortSignal): Promise<void> {
    const store = await this.#find(signal);
    if (store === undefined || !isThere(await untilAborted(infoOf(store, name), signal))) return;
    await untilAborted(store.delete(name), signal);
    // Removes the mark that is left behind; otherwise marks of names that are used once would pile up.
    const { manager } = await openJetStream(await this.#client.connection(signal));
    const filter = `$O.${this.#settings.name}.M.${base64Url(name)}`;
    await untilAborted(manager.streams.purge(`OBJ_${this.#settings.name}`, { filter }), signal);
  }

  async #open(signal: AbortSignal): Promise<{ readonly stores: Objm; readonly manager: JetStreamManager }> {
    const obj = await loadObjectStores();
    const { manager } = await openJetStream(await this.#client.connection(signal));
    return { stores: new obj.Objm(manager.jetstream()), manager };
  }

  /** Returns the bucket; undefined if there is none. */
  async #find(signal: AbortSignal): Promise<ObjectStore | undefined> {
    signal.throwIfAborted();
    const { stores } = await this.#open(signal);
    try {
      return await untilAborted(stores.open(this.#settings.name), signal);
    } catch (error) {
      const isMissing = apiCodeOf(error) === STREAM_NOT_FOUND || reasonOf(error) === 'object store not found';
      if (isMissing) return undefined;
      throw error;
    }
  }

  /**
   * Removes the parts of writers that died half way: a live writer adds to its parts. A process that puts objects
   * watches the parts by its own clock, because the server's clock, which dates them, may be wrong.
   */
  async #clearOrphans(manager: JetStreamManager, store: ObjectStore): Promise<void> {
    const { name } = this.#settings;
    const stream = `OBJ_${name}`;
    const prefix = `$O.${name}.C.`;
    const { state } = await manager.streams.info(stream, { subjects_filter: `${prefix}>` });
    const known = new Set((await store.list()).map((info) => prefix + info.nuid));
    const nowMs = this.#client.clock.nowMs();
    const orphans = new Map<string, { readonly sequence: number; readonly sinceMs: number }>();
    for (const subject of Object.keys(state.subjects ?? {})) {
      if (known.has(subject)) continue;
      const sequence = (await manager.streams.getMessage(stream, { last_by_subj: subject }))?.seq ?? 0;
      const seen = this.#orphans.get(subject);
      const sinceMs = seen?.sequence === sequence ? seen.sinceMs : nowMs;
      if (nowMs - sinceMs > ORPHAN_MS_MAX) await manager.streams.purge(stream, { filter: subject });
      else orphans.set(subject, { sequence, sinceMs });
    }
    this.#orphans = orphans;
  }

  /** Rejects for a part that never comes, because the library would wait for it without end. */
  #beforeStall<T>(part: () => Promise<T>, name: string, signal: AbortSignal): Promise<T> {
    const lateMessage = `"${name}" is incomplete: nothing came for ${STALL_MS} ms`;
    return withDeadline({ clock: this.#client.clock, timeoutMs: STALL_MS, signal, lateMessage }, part);
  }
}

async function infoOf(store: ObjectStore, name: string): Promise<ObjectInfo | null> {
  try {
    return await store.info(name);
  } catch (error) {
    if (apiCodeOf(error) === MESSAGE_NOT_FOUND) return null; // newer libraries answer null themselves
    throw error;
  }
}

function alreadyThere(name: string): Error {
  return new Error(`"${name}" exists already`);
}

/** Encodes a name as the library writes it into subjects. */
function base64Url(name: string): string {
  return Buffer.from(name).toString('base64').replaceAll('+', '-').replaceAll('/', '_');
}

function isThere(info: ObjectInfo | null): boolean {
  return info !== null && !info.deleted;
}

function streamOf(
  parts: AsyncIterator<Uint8Array> | Iterator<Uint8Array>,
  signal: AbortSignal,
): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      signal.throwIfAborted(); // errors the stream: the library removes the written parts
      const { done, value } = await parts.next();
      if (done) controller.close();
      else controller.enqueue(value.slice()); // the writer may reuse its memory
    },
  });
}
