export { readDemand } from './demand.ts';
export { LocalPlanner, type ScalableWorkers } from './local-planner.ts';
export { localPlanning } from './settings.ts';
