/**
 * @module console
 * What the console shows: the last requests of a frontend in a bounded ring, their last hour in steps, and the fleet as
 * the frontend knows it. One sample a second serves all viewers; nothing is sampled while no client looks.
 */
export { type ConsoleObserver, FleetConsole, type OpenConsole } from './console.ts';
export type { PlannerSource } from './planner/planner-view.ts';
export { PlannerViewers } from './planner/planner-viewers.ts';
export type { PlannerRecords } from './planner/reader.ts';
export { type ConsoleWhatIf, plannedSchema, plannerSchema, whatIfBodySchema, whatIfSchema } from './planner/wire.ts';
export { REQUEST_OUTCOMES, type RequestFilter } from './request-filter.ts';
export type { RequestLog } from './request-log.ts';
export type { RequestTrace } from './request-trace.ts';
export type { ViewerQuery, ViewerSink } from './viewers.ts';
export { changeSchema, fleetSchema, hourSchema } from './wire/fleet.ts';
export { type ConsoleKey, issuedKeySchema, keySchema, keysSchema } from './wire/keys.ts';
export { changedRequestsSchema, requestDetailSchema, requestsSchema } from './wire/requests.ts';
export { drainSchema, workerDetailSchema } from './wire/worker.ts';
