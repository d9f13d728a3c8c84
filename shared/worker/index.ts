/**
 * @module worker
 * Puts an engine behind an endpoint: serves it on the request plane, registers it under the process's lease, publishes
 * its cache changes and load, watches its health, and drains without losing a request.
 */
export { type SmallServer, startSmallServer } from './control/small-server.ts';
export type { CardSettings } from './model-card.ts';
export { applyEngineArgs, readEngineArgs } from './process/engine-args.ts';
export { parseEndpoint, staggerDelayMs, startWorkerProcess } from './process/worker.ts';
