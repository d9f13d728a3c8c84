/**
 * @module planner
 * Decides how many workers a pool needs. A planner is pure: it takes counts and observations, and returns targets and
 * reasons. Hosts keep its state and act. The laws of Dynamo's planner (`throughput`, `latency`, `load`, `sla`) decide
 * as Dynamo does; `rate`, the default, is this product's own.
 */
export {
  PLANNER_KEYS,
  type PlannerConfig,
  PlannerConfigError,
  type PlannerLaw,
  parsePlannerConfig,
} from './config.ts';
export { missingRates } from './decide/needs-passes.ts';
export { readOpenSample } from './decide/note-sample.ts';
export { type PresentPlanner, readPresent } from './decide/present.ts';
export type { QueueRecord } from './decide/queue-batch.ts';
export type { LawTick } from './decide/tick-law.ts';
export {
  askWhatIf,
  type LawAnswer,
  type WhatIf,
  type WhatIfBounds,
  WhatIfRefusal,
} from './decide/what-if.ts';
export { AutoScalingCalls } from './ec2/auto-scaling-calls.ts';
export { AutoScalingError } from './ec2/auto-scaling-error.ts';
export { Ec2Connector, type GroupCalls } from './ec2/connector.ts';
export type { ForwardPass } from './forward-pass/metrics.ts';
export { DynamoDbHeldNotes } from './held/dynamodb-held-notes.ts';
export { HeldReporter } from './held/held-reporter.ts';
export { HeldWaker } from './held/held-waker.ts';
export { HELD_PREFIX, type HeldNotes } from './held/types.ts';
export type { ClusterFleet, ClusterPlace } from './kubernetes/cluster-fleet.ts';
export { KubernetesConnector } from './kubernetes/connector.ts';
export { accessTo } from './kubernetes/find-cluster.ts';
export { readPodFleets } from './kubernetes/read-cluster-fleets.ts';
export { WorkloadCalls } from './kubernetes/workload-calls.ts';
export { poolsOf } from './laws/pools.ts';
export type { Connector } from './live/connector.ts';
export { drainOrders } from './live/drain-orders.ts';
export { FleetPlanner, type FleetPlannerOptions } from './live/fleet-planner.ts';
export { LocalConnector, type ScalableWorkers } from './live/local-connector.ts';
export { createPlannerMetrics } from './live/planner-metrics.ts';
export { readStart, type StartReading } from './live/read-start.ts';
export { FolderKeys, VirtualConnector } from './live/virtual-connector.ts';
export { wattsOf } from './loops.ts';
export {
  describeProblems,
  type FleetSpec,
  type FleetSpecs,
  type OptionSpec,
  type PoolSpec,
  type Unit,
  unitOf,
} from './options/fleet-spec.ts';
export { type InstanceLoad, InstanceLoads } from './options/instance-loads.ts';
export { chooseFleet, fleetPreset, readFleets } from './options/read-fleets.ts';
export {
  type Planner,
  type PlannerBounds,
  type PlannerInput,
  type PlannerState,
  startPlanner,
  teach,
  tick,
} from './planner.ts';
export { INSTANCE_EVENTS_GROUP } from './queue/instance-events.ts';
export { type PlannedBatch, type PlannedModel, QueuePlanner } from './queue/queue-planner.ts';
export { readPlannerConfig } from './read-config.ts';
export {
  type FleetEvent,
  type FleetSample,
  joinSamples,
  WORKER_PHASES,
  type WorkerPhase,
} from './record/fleet-sample.ts';
export { BLOCK_ENDS_EARLY_MS, SPOT_NOTICE_MS } from './signals/eventbridge-events.ts';
export { FleetRollups } from './signals/fleet-rollups.ts';
export { outcomeLines, STATUS_WORDS } from './store/decision-words.ts';
export { DynamoDbPlannerStore } from './store/dynamodb-store.ts';
export { FilePlannerStore } from './store/file-store.ts';
export { namesOf } from './store/group-names.ts';
export { KeptDecisions } from './store/kept-decisions.ts';
export { MemoryPlannerStore } from './store/memory-store.ts';
export { type DecisionRecord, type PlannerStore, PlannerStoreError, type TickRecord } from './store/types.ts';
export type { PerPool, Pool, Targets, TrafficWindow } from './types.ts';
