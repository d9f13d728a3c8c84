/**
 * @module router-state
 * State that routers share without a server: leases and pointers, snapshots of the block index, and the requests of
 * other routers. docs/router-state.md says who writes it, and what it costs.
 */
export { DynamoDbRouterState } from './dynamodb-router-state.ts';
export { FileRouterState } from './file-router-state.ts';
export { LeaseHolder } from './lease-holder.ts';
export {
  ACTIVE_SEQUENCES_TOPIC,
  type ActiveSequenceChange,
  type ActiveSequenceEvent,
  ReplicaSync,
  replicaBookings,
} from './replica-sync.ts';
export type { RouterState } from './router-state.ts';
export { ComponentIndex, type ComponentPool } from './snapshots/component-index.ts';
export { createNatsSnapshotStore, snapshotBucketOf } from './snapshots/nats-snapshot-store.ts';
export type { SnapshotStore } from './snapshots/snapshot.ts';
export { REPORT_AGE_S, UnattributedLoad } from './unattributed-load.ts';
