/**
 * @module host
 * The agent of one machine with GPUs (`stator host`): starts its workers, takes part in the lifecycle of its Auto
 * Scaling group, and drains the workers before the machine ends. `law/` decides without input or output; `runners/`
 * runs workers as containers or processes.
 */
export { runHost } from './host-process.ts';
export { syncWeights } from './weights/sync-weights.ts';
