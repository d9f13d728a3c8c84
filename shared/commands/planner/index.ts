export { type CountedDemand, demandSince, readDemand, type SeenDemand } from './demand.ts';
export { LocalPlanner, type LocalPlannerOptions, type ScalableWorkers } from './local-planner.ts';
export { localPlanning } from './settings.ts';
