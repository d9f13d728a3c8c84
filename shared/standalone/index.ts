/**
 * @module standalone The services that Dynamo runs beside its frontends (`stator router`): the router on the request
 * plane, the indexer, the slot tracker and the selection service. Each is a thin layer of routes over the router's own
 * modules.
 */
export { startIndexer } from './indexer-service.ts';
export { startSelectionService } from './selection-service.ts';
export { type ServiceSettings, serveService } from './service.ts';
export { startSlotTracker } from './slot-tracker.ts';
export { startStandaloneRouter } from './standalone-router.ts';
