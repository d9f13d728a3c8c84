import type { ObjectInfo, ObjectStore } from '@nats-io/obj';
import { abortable } from './abortable.ts';
import { apiCodeOf, MESSAGE_NOT_FOUND, openJetStream, STREAM_NOT_FOUND } from './jetstream-access.ts';
import type { NatsLink } from './link.ts';
import type { NatsBucket, NatsBucketSettings } from './types.ts';

const STALL_MS = 10_000;

/** A bucket of NATS' object store. Its digest of an object is checked when the object is read. */
export class LinkedBucket implements NatsBucket {
  readonly #link: NatsLink;
  readonly #settings: NatsBucketSettings;

  constructor(link: NatsLink, settings: NatsBucketSettings) {
    this.#link = link;
    this.#settings = settings;
  }

  async put(
    name: string,
    chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<void> {
    const store = await this.#open(true, signal);
    if (store === undefined) return; // made above
    const known = await abortable(infoOf(store, name), signal);
    if (known !== null && !known.deleted) throw new Error(`the object ${name} exists already`);
    // The revision (that of the mark a removed one left) makes the server refuse the second of two that write at once.
    const previousRevision = known?.revision ?? 0;
    await abortable(store.put({ name }, streamOf(chunks, signal), { previousRevision }), signal);
  }

  async get(name: string, signal: AbortSignal): Promise<Uint8Array | undefined> {
    const store = await this.#open(false, signal);
    if (store === undefined) return undefined;
    if (!isThere(await abortable(infoOf(store, name), signal))) return undefined;
    const object = await abortable(store.get(name), signal);
    if (object === null) return undefined; // removed in between
    object.error.catch(() => {}); // the same failure comes out of the reader
    const bytes = new Uint8Array(object.info.size);
    const reader = object.data.getReader();
    let length = 0;
    try {
      for (;;) {
        const { done, value } = await this.#beforeStall(reader.read(), name, signal);
        if (done) break;
        if (length + value.length > bytes.length) throw new Error(`the object ${name} is longer than it says`);
        bytes.set(value, length);
        length += value.length;
      }
    } catch (error) {
      reader.cancel().catch(() => {}); // it failed already
      throw error;
    }
    if (length !== bytes.length) throw new Error(`the object ${name} has ${length} of ${bytes.length} bytes`);
    return bytes;
  }

  async list(signal: AbortSignal): Promise<readonly string[]> {
    const store = await this.#open(false, signal);
    if (store === undefined) return [];
    const infos = await abortable(store.list(), signal);
    return infos.map((info) => info.name).sort();
  }

  async remove(name: string, signal: AbortSignal): Promise<void> {
    const store = await this.#open(false, signal);
    if (store === undefined || !isThere(await abortable(infoOf(store, name), signal))) return;
    await abortable(store.delete(name), signal);
  }

  /** The bucket; undefined when there is none and none is to be made. */
  async #open(isMade: boolean, signal: AbortSignal): Promise<ObjectStore | undefined> {
    const { Objm } = await import('@nats-io/obj');
    const { manager } = await openJetStream(this.#link, signal);
    const stores = new Objm(manager.jetstream());
    const { name, replicas } = this.#settings;
    if (isMade) return abortable(stores.create(name, { replicas }), signal);
    try {
      return await abortable(stores.open(name), signal);
    } catch (error) {
      if (apiCodeOf(error) === STREAM_NOT_FOUND || (error as Error).message === 'object store not found')
        return undefined;
      throw error;
    }
  }

  /** A part that never comes: the library would wait for it without end. */
  async #beforeStall<T>(part: Promise<T>, name: string, signal: AbortSignal): Promise<T> {
    const { stallMsMax = STALL_MS } = this.#settings;
    const stall = new AbortController();
    const timer = this.#link.clock.after(stallMsMax, () =>
      stall.abort(new Error(`the object ${name} is incomplete: nothing came for ${stallMsMax} ms`)),
    );
    try {
      return await abortable(part, AbortSignal.any([stall.signal, signal]));
    } finally {
      timer.cancel();
    }
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

function isThere(info: ObjectInfo | null): boolean {
  return info !== null && !info.deleted;
}

function streamOf(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  signal: AbortSignal,
): ReadableStream<Uint8Array> {
  const parts = Symbol.asyncIterator in chunks ? chunks[Symbol.asyncIterator]() : chunks[Symbol.iterator]();
  return new ReadableStream({
    async pull(controller) {
      signal.throwIfAborted(); // errors the stream: the library removes what it has written
      const { done, value } = await parts.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
}
