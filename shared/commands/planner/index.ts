export { type LocalRun, openLocalPlanner, openPlanner, rollupIntervalMs } from './fleet.ts';
export { localPlanning, openPlannerStore } from './settings.ts';
