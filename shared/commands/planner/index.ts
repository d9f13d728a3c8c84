export { type LocalRun, openLocalPlanner, openPlanner, rollupIntervalMs } from './fleet.ts';
export { openPlannerStore } from './open-store.ts';
export { localPlanning } from './settings.ts';
