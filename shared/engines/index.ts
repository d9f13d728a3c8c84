/**
 * @module engines
 * How a worker drives its inference engine: one folder an engine behind the `Engine` seam.
 */
export { relabelEngineMetrics } from './server/metric-samples.ts';
export type { Engine, EngineInfo, EngineLoad, EngineSink, KvEvent, KvTier } from './types.ts';
