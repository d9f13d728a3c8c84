/**
 * @module worker
 * Puts an engine behind an endpoint: serves it on the request plane, registers it under the process's lease, publishes its
 * cache changes and load, watches its health, and drains without losing a request.
 */
export { AdapterCache, type AdapterCacheOptions } from './adapters/adapter-cache.ts';
export { startControlServer } from './control/control-server.ts';
export { EndpointHealth } from './control/endpoint-health.ts';
export type { SmallServer } from './control/small-server.ts';
export { metadataPath, type StatusServerOptions, startStatusServer } from './control/status-server.ts';
export { buildModelCard, type CardSettings } from './model-card.ts';
export type { WorkerOptions } from './options.ts';
export { applyEngineArgs, readEngineArgs } from './process/engine-args.ts';
export { staggerDelayMs, startWorkerProcess } from './process/worker.ts';
export { startWorker, type Worker } from './worker.ts';
