/**
 * @module engines
 * How a worker drives its inference engine: one folder an engine behind the `Engine` seam, and its `EngineKind`, by which a
 * worker opens it.
 */
export type { EngineContext, EngineKind, EngineRole, ModelFacts, OpenedEngine } from './engine-kind.ts';
export { relabelEngineMetrics } from './server/metric-samples.ts';
export type { Engine, EngineInfo, EngineLoad, EnginePass, EngineSink, KvEvent, KvTier } from './types.ts';
