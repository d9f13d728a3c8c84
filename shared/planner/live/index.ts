/**
 * @module planner/live
 * A planner that runs beside its fleet: hears workers and edges on the event plane, decides, and has its decisions carried out.
 */

export type { Pool } from '../types.ts';
export {
  type Connector,
  FolderKeys,
  LocalConnector,
  type ScalableWorkers,
  VirtualConnector,
  type VirtualKeys,
} from './connectors.ts';
export { FleetPlanner, type FleetPlannerOptions } from './fleet-planner.ts';
export { createPlannerMetrics } from './planner-metrics.ts';
