/**
 * @module router/state
 * What routers share without a server: load counters, fleet items for functions, one lease, and snapshots
 * of the block index. `RouterState` is the seam to the table, `SnapshotStore` the one to the objects; everything else is
 * policy on top of them and runs on a clock that is passed in. docs/router-state.md says who writes what, and what it costs.
 */

export {
  type ActiveSequenceChange,
  type ActiveSequenceEvent,
  decodeActiveSequences,
  encodeActiveSequence,
} from './active-sequence-event.ts';
export { CounterReporter, type CounterReporterOptions, type RankReading } from './counter-reporter.ts';
export {
  createRouterStateTable,
  DynamoDbRouterState,
  type DynamoDbRouterStateOptions,
} from './dynamodb-router-state.ts';
export type { FleetWorker } from './fleet-item.ts';
export { FleetReader, type FleetReaderOptions, type FleetSource, type FleetView } from './fleet-reader.ts';
export { FleetWriter, type FleetWriterOptions } from './fleet-writer.ts';
export { LeaseHolder, type LeaseHolderOptions } from './lease-holder.ts';
export {
  decodeReserved,
  encodeReserved,
  loadOf,
  NO_LOAD,
  RESERVED_HEADER,
  type ReservedAmounts,
  SharedLoad,
  type SharedLoadOptions,
} from './load-amounts.ts';
export { CounterSweep, type CounterSweepOptions, LoadFollower, type LoadFollowerOptions } from './load-follower.ts';
export { MemoryRouterStateHub } from './memory-router-state.ts';
export { ACTIVE_SEQUENCES_TOPIC, ReplicaSync, type ReplicaSyncOptions, replicaBookings } from './replica-sync.ts';
export { ReservationLedger, type ReservationLedgerOptions } from './reservation-ledger.ts';
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
  FleetItemKey,
  FleetItemRow,
  LeaseRow,
  LoadReport,
  LoadRow,
  PoolAddress,
  RankId,
  ReservationChange,
  RouterState,
  RouterStateErrorCode,
  SnapshotPlace,
  SnapshotPointer,
  StateName,
} from './types.ts';
