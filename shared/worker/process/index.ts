/**
 * @module worker/process
 * The workers of a process as its settings say: engines, model cards, status and control servers.
 */
export { applyEngineArgs, type EngineArgs, readEngineArgs } from './engine-args.ts';
export { type DefinedModel, staggerDelayMs, startWorkerProcess, type WorkerProcess } from './worker.ts';
