/**
 * @module planner/signals
 * What a process that hears a whole fleet tells planners of it. A door of its own: it is loaded where there is a planner's queue.
 */
export { FleetRollups, type FleetRollupsOptions } from './fleet-rollups.ts';
