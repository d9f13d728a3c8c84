/**
 * @module router/state
 * What routers share without a server: leases, snapshots of the block index, and what each has sent to whom. `RouterState` is
 * the seam to the table, `SnapshotStore` the one to the objects; everything else is policy on top of them and runs on a clock
 * that is passed in. docs/router-state.md says who writes what, and what it costs.
 */

export {
  type ActiveSequenceChange,
  type ActiveSequenceEvent,
  decodeActiveSequences,
  encodeActiveSequence,
} from './active-sequence-event.ts';
export {
  createRouterStateTable,
  DynamoDbRouterState,
  type DynamoDbRouterStateOptions,
} from './dynamodb-router-state.ts';
export { LeaseHolder, type LeaseHolderOptions } from './lease-holder.ts';
export { MemoryRouterStateHub } from './memory-router-state.ts';
export { ACTIVE_SEQUENCES_TOPIC, ReplicaSync, type ReplicaSyncOptions, replicaBookings } from './replica-sync.ts';
export { type ComponentFeed, type ComponentPool, foldComponent, type PoolIndex } from './snapshots/component-fold.ts';
export { ComponentIndex, type ComponentIndexOptions } from './snapshots/component-index.ts';
export { openFileSnapshotStore } from './snapshots/file-snapshot-store.ts';
export { type HydratedFrom, IndexReader, type IndexReaderOptions } from './snapshots/index-reader.ts';
export { createMemorySnapshotStore } from './snapshots/memory-snapshot-store.ts';
export {
  createNatsSnapshotStore,
  type NatsSnapshotStoreOptions,
  snapshotBucketOf,
} from './snapshots/nats-snapshot-store.ts';
export type { RankCursor } from './snapshots/snapshot-object.ts';
export { type SnapshotOutcome, Snapshotter, type SnapshotterOptions } from './snapshots/snapshotter.ts';
export type { FoldedIndex, LogPosition, SnapshotStore } from './snapshots/types.ts';
export type {
  LeaseRow,
  RankId,
  RouterState,
  RouterStateErrorCode,
  SnapshotPlace,
  SnapshotPointer,
  StateName,
} from './types.ts';
export { REPORT_AGE_S, UnattributedLoad } from './unattributed-load.ts';
