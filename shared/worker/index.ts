/**
 * @module worker
 * Puts an engine behind an endpoint: serves it on the request plane, registers it under the process's lease, publishes its
 * cache changes and load, watches its health, and drains without losing a request.
 */

export { AdapterCache, type AdapterCacheOptions } from './adapter-cache.ts';
export type { WorkerControl } from './control.ts';
export { EndpointHealth, type EndpointHealthOptions } from './endpoint-health.ts';
export { buildModelCard, type CardSettings, type ModelFacts, type ServedNames } from './model-card.ts';
export type { WorkerAddress, WorkerOptions } from './options.ts';
export { type StatusServer, type StatusServerOptions, startStatusServer } from './status-server.ts';
export { startWorker, type Worker } from './worker.ts';
