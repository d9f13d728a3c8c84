import { createHash, randomUUID } from 'node:crypto';
import { link, mkdir, open, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, systemClock } from '../../../clock/index.ts';
import { reasonOf } from '../../../errors/index.ts';
import type { NatsClient } from '../../../planes/nats/index.ts';
import { RouterStateError } from '../router-state.ts';
import { assertObjectName, type SnapshotStore } from './snapshot.ts';

const DIGEST_BYTES = 32;
const TEMPORARY = '.tmp-';
const TEMPORARY_MS_MAX = 3_600_000;
const READ_BYTES = 1 << 18; // its digest takes less than 1 ms

/**
 * Keeps snapshots as files of one folder, for one machine. A file holds the bytes and their SHA-256. It is written under
 * another name, brought to the disk, and then linked to its own name, which fails where that exists: a crash leaves either
 * the whole object or a temporary file, which a later `put` clears away after an hour.
 */
export async function openFileSnapshotStore(folder: string, clock: Clock = systemClock): Promise<SnapshotStore> {
  await failing(folder, () => mkdir(folder, { recursive: true }));
  return {
    name: 'file',
    put: (name, chunks, signal) =>
      failing(folder, async () => {
        signal.throwIfAborted();
        assertObjectName(name);
        await clearTemporary(folder, clock.wallMs());
        await put(folder, name, chunks, signal);
      }),
    get: (name, signal) => failing(folder, () => get(folder, name, signal)),
    list: (signal) =>
      failing(folder, async () => {
        signal.throwIfAborted();
        return (await readdir(folder)).filter((name) => !name.startsWith('.')).sort();
      }),
    remove: (name, signal) =>
      failing(folder, async () => {
        signal.throwIfAborted();
        assertObjectName(name);
        await rm(join(folder, name), { force: true });
      }),
    async close() {},
  };
}

async function put(
  folder: string,
  name: string,
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  const temporary = join(folder, `${TEMPORARY}${randomUUID()}`);
  try {
    const file = await open(temporary, 'wx');
    try {
      const hash = createHash('sha256');
      for await (const chunk of chunks) {
        signal.throwIfAborted();
        hash.update(chunk);
        await file.writeFile(chunk);
      }
      await file.writeFile(hash.digest());
      await file.sync();
    } finally {
      await file.close();
    }
    signal.throwIfAborted();
    await link(temporary, join(folder, name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
      throw new RouterStateError('misconfigured', `snapshot "${name}" exists already in ${folder}`, error);
    });
    await syncFolder(folder);
  } finally {
    await rm(temporary, { force: true });
  }
}

async function get(folder: string, name: string, signal: AbortSignal): Promise<Uint8Array | undefined> {
  signal.throwIfAborted();
  assertObjectName(name);
  const file = await open(join(folder, name)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (file === undefined) return undefined;
  try {
    const { size } = await file.stat();
    const damaged = new RouterStateError('unavailable', `snapshot "${name}" in ${folder} is damaged`);
    if (size < DIGEST_BYTES) throw damaged;
    const bytes = Buffer.alloc(size);
    const hash = createHash('sha256');
    for (let at = 0; at < size; ) {
      signal.throwIfAborted();
      const { bytesRead } = await file.read(bytes, at, Math.min(READ_BYTES, size - at), at);
      if (bytesRead === 0) throw damaged; // it was cut while we read
      hash.update(bytes.subarray(at, Math.min(at + bytesRead, size - DIGEST_BYTES)));
      at += bytesRead;
    }
    const body = bytes.subarray(0, size - DIGEST_BYTES);
    if (!hash.digest().equals(bytes.subarray(size - DIGEST_BYTES))) throw damaged;
    return body;
  } finally {
    await file.close();
  }
}

/** What crashed writers left; a live one is never an hour old. */
async function clearTemporary(folder: string, nowMs: number): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!name.startsWith(TEMPORARY)) continue;
    const path = join(folder, name);
    const age = await stat(path).then(
      ({ mtimeMs }) => nowMs - mtimeMs,
      () => 0, // it is gone
    );
    if (age > TEMPORARY_MS_MAX) await rm(path, { force: true });
  }
}

/** Brings the new name to the disk. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Names the folder in what the file system has to say. */
async function failing<T>(folder: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isOfSystem = error instanceof Error && 'syscall' in error;
    if (!isOfSystem) throw error;
    throw new RouterStateError('unavailable', `cannot use the snapshots in ${folder}: ${reasonOf(error)}`, error);
  }
}

export interface NatsSnapshotStoreOptions {
  /** The store's own connection, so that a snapshot on its way holds up nothing else; closed with it. */
  readonly client: NatsClient;
  /** Bucket of NATS' object store, e.g. `namespace-dynamo-component-backend-radix-bucket`. */
  readonly bucket: string;
  /** `STATOR_NATS_STREAM_REPLICAS`. @default 1 */
  readonly replicas?: number;
}

/**
 * Keeps snapshots in NATS' object store, which the `nats` command can read, too. The bucket is made by the first `put`; a
 * digest is checked by every `get`.
 */
export function createNatsSnapshotStore({ client, bucket, replicas = 1 }: NatsSnapshotStoreOptions): SnapshotStore {
  const objects = client.bucket({ name: bucket, replicas });

  /** Names the bucket in what goes wrong; the reason of an abort passes as it is. */
  async function failing<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (signal.aborted || error instanceof RangeError) throw error;
      throw new RouterStateError('unavailable', `snapshots in NATS bucket ${bucket}: ${reasonOf(error)}`, error);
    }
  }

  return {
    name: 'nats',
    put: (name, chunks, signal) =>
      failing(signal, () => {
        assertObjectName(name);
        return objects.put(name, chunks, signal);
      }),
    get: (name, signal) =>
      failing(signal, () => {
        assertObjectName(name);
        return objects.get(name, signal);
      }),
    list: (signal) => failing(signal, () => objects.list(signal)),
    remove: (name, signal) =>
      failing(signal, () => {
        assertObjectName(name);
        return objects.remove(name, signal);
      }),
    close: () => client.close(),
  };
}

/** Bucket of a component's snapshots. Characters that a bucket cannot have become `-`. */
export function snapshotBucketOf(namespace: string, component: string): string {
  return `namespace-${namespace}-component-${component}-radix-bucket`.replace(/[^\w-]/g, '-');
}

/** Keeps snapshots inside one process. @param bytesMax of all objects together. @default 1 GiB */
export function createMemorySnapshotStore(bytesMax = 1024 ** 3): SnapshotStore {
  const objects = new Map<string, Uint8Array>();
  const storedBytes = (): number => [...objects.values()].reduce((sum, { length }) => sum + length, 0);
  return {
    name: 'memory',
    async put(name, chunks, signal) {
      assertObjectName(name);
      const parts: Uint8Array[] = [];
      let bytes = 0;
      for await (const chunk of chunks) {
        signal.throwIfAborted();
        bytes += chunk.length;
        if (storedBytes() + bytes > bytesMax) {
          throw new RouterStateError('unavailable', `the snapshot store in memory is full: ${bytesMax} bytes`);
        }
        parts.push(chunk.slice());
      }
      signal.throwIfAborted();
      if (objects.has(name)) throw new RouterStateError('misconfigured', `snapshot "${name}" exists already`);
      objects.set(name, Buffer.concat(parts));
    },
    async get(name, signal) {
      signal.throwIfAborted();
      assertObjectName(name);
      return objects.get(name)?.slice();
    },
    async list(signal) {
      signal.throwIfAborted();
      return [...objects.keys()].sort();
    },
    async remove(name, signal) {
      signal.throwIfAborted();
      objects.delete(name);
    },
    async close() {},
  };
}
