import { RouterStateError } from '../../../shared/router-state/router-state.ts';
import { assertObjectName, type SnapshotStore } from '../../../shared/router-state/snapshots/snapshot.ts';

/**
 * Keeps snapshots inside one process.
 * @param bytesMax limit of all objects together. @default 1 GiB
 */
export function createMemorySnapshotStore(bytesMax = 1024 ** 3): SnapshotStore {
  const objects = new Map<string, Uint8Array>();
  const storedBytes = (): number => [...objects.values()].reduce((sum, { length }) => sum + length, 0);
  return {
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
