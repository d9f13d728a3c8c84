/**
 * @module router/state
 * What routers share without a server: leases, snapshots of the block index, and what each has sent to whom. `RouterState` is
 * the seam to the table, `SnapshotStore` the one to the objects; everything else is policy on top of them and runs on a clock
 * that is passed in. docs/router-state.md says who writes what, and what it costs.
 */

export {
  DynamoDbRouterState,
  type DynamoDbRouterStateOptions,
} from './dynamodb-router-state.ts';
export { LeaseHolder, type LeaseHolderOptions } from './lease-holder.ts';
export {
  ACTIVE_SEQUENCES_TOPIC,
  type ActiveSequenceChange,
  type ActiveSequenceEvent,
  decodeActiveSequences,
  encodeActiveSequence,
  ReplicaSync,
  type ReplicaSyncOptions,
  replicaBookings,
} from './replica-sync.ts';
export type {
  LeaseRow,
  RouterState,
  RouterStateErrorCode,
  SnapshotPlace,
  SnapshotPointer,
  StateName,
} from './router-state.ts';
export {
  type ComponentFeed,
  ComponentIndex,
  type ComponentIndexOptions,
  type ComponentPool,
  foldComponent,
} from './snapshots/component-index.ts';
export { type HydratedFrom, IndexReader, type IndexReaderOptions } from './snapshots/index-reader.ts';
export {
  createNatsSnapshotStore,
  type NatsSnapshotStoreOptions,
  snapshotBucketOf,
} from './snapshots/nats-snapshot-store.ts';
export type { FoldedIndex, LogPosition, SnapshotStore } from './snapshots/snapshot.ts';
export { type SnapshotOutcome, Snapshotter, type SnapshotterOptions } from './snapshots/snapshotter.ts';
export { REPORT_AGE_S, UnattributedLoad } from './unattributed-load.ts';
