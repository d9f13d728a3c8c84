import { reasonOf } from '../../errors/index.ts';
import type { NatsClient } from '../../planes/index.ts';
import { RouterStateError } from '../router-state.ts';
import { assertObjectName, type SnapshotStore } from './snapshot.ts';

export interface NatsSnapshotStoreOptions {
  /** Connection that only the store uses, so that a large snapshot delays nothing else. The store closes it. */
  readonly client: NatsClient;
  /** Bucket of NATS' object store, e.g. `namespace-dynamo-component-backend-radix-bucket`. */
  readonly bucket: string;
  /** `STATOR_NATS_STREAM_REPLICAS`. @default 1 */
  readonly replicas?: number;
}

/**
 * Keeps snapshots in NATS' object store, which the `nats` command can read, too. The first `put` creates the bucket.
 * Every `get` checks a digest.
 */
export function createNatsSnapshotStore({ client, bucket, replicas = 1 }: NatsSnapshotStoreOptions): SnapshotStore {
  const objects = client.bucket({ name: bucket, replicas });

  /** Runs `work` and names the bucket in its failures. The reason of an abort passes unchanged. */
  async function failing<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (signal.aborted || error instanceof RangeError) throw error;
      throw new RouterStateError('unavailable', `snapshots in NATS bucket ${bucket}: ${reasonOf(error)}`, error);
    }
  }

  return {
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

/** Returns the bucket of a component's snapshots. Characters that a bucket cannot have become `-`. */
export function snapshotBucketOf(namespace: string, component: string): string {
  return `namespace-${namespace}-component-${component}-radix-bucket`.replace(/[^\w-]/g, '-');
}
