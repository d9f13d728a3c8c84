/**
 * @module router/state
 * What routers share without a server: load counters, fleet items for functions, one lease, and snapshots
 * of the block index. `RouterState` is the seam to the table, `SnapshotStore` the one to the objects; everything else is
 * policy on top of them and runs on a clock that is passed in. docs/router-state.md says who writes what, and what it costs.
 */
export {
  createRouterStateTable,
  DynamoDbRouterState,
  type DynamoDbRouterStateOptions,
} from './dynamodb/dynamodb-router-state.ts';
export type { FleetWorker } from './fleet/fleet-item.ts';
export { FleetReader, type FleetReaderOptions, type FleetSource, type FleetView } from './fleet/fleet-reader.ts';
export { FleetWriter, type FleetWriterOptions } from './fleet/fleet-writer.ts';
export { LeaseHolder, type LeaseHolderOptions } from './lease/lease-holder.ts';
export { CounterReporter, type CounterReporterOptions, type RankReading } from './load/counter-reporter.ts';
export { CounterSweep, type CounterSweepOptions } from './load/counter-sweep.ts';
export { type LoadAmounts, loadOf, NO_LOAD } from './load/load-amounts.ts';
export { LoadFollower, type LoadFollowerOptions } from './load/load-follower.ts';
export { ReservationLedger, type ReservationLedgerOptions } from './load/reservation-ledger.ts';
export { decodeReserved, encodeReserved, RESERVED_HEADER, type ReservedAmounts } from './load/reserved-header.ts';
export { MemoryRouterStateHub } from './memory/memory-router-state.ts';
export {
  type ActiveSequenceChange,
  type ActiveSequenceEvent,
  decodeActiveSequences,
  encodeActiveSequence,
} from './replica/active-sequence-event.ts';
export { replicaBookings } from './replica/replica-bookings.ts';
export { ACTIVE_SEQUENCES_TOPIC, ReplicaSync, type ReplicaSyncOptions } from './replica/replica-sync.ts';
export { SharedLoad, type SharedLoadOptions } from './replica/shared-load.ts';
export type { RouterStateErrorCode } from './router-state-error.ts';
export type { SnapshotStore } from './snapshot-store.ts';
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
export type { FoldedIndex, LogPosition } from './snapshots/types.ts';
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
  SnapshotPlace,
  SnapshotPointer,
  StateName,
} from './types.ts';
