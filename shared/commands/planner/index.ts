export { type LocalRun, openLocalPlanner, openPlanner, rollupIntervalMs } from './fleet.ts';
export { localPlanning } from './settings.ts';
