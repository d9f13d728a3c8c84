/**
 * @module planner/live
 * A planner that runs beside its fleet: hears workers and edges on the event plane, decides, and has its decisions carried out.
 */
export { FolderKeys } from '../connectors/folder-keys.ts';
export { LocalConnector, type ScalableWorkers } from '../connectors/local-connector.ts';
export type { Connector } from '../connectors/types.ts';
export { VirtualConnector, type VirtualKeys } from '../connectors/virtual-connector.ts';
export type { Pool } from '../types.ts';
export { FleetPlanner } from './fleet-planner.ts';
export { createPlannerMetrics } from './planner-metrics.ts';
