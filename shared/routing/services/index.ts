/**
 * @module routing/services
 * The standalone router, and the services beside it: indexer, slot tracker, selection.
 */
export { startIndexer } from './indexer.ts';
export { startSelectionService } from './selection.ts';
export { serveService } from './service-server.ts';
export type { ServiceSettings } from './service-settings.ts';
export { startSlotTracker } from './slot-tracker.ts';
export { startStandaloneRouter } from './standalone-router.ts';
