/**
 * @module pipeline
 * One request's life: resolve the model, render, tokenize, route, dispatch, detokenize, stop, count.
 */
export { BusyThresholds, type BusyThresholdValues } from './busy-thresholds.ts';
export { CacheClearer, type CacheClearerOptions, type ClearedWorker } from './cache-clearer.ts';
export { conditionalBypass } from './conditional-bypass.ts';
export { createPipeline, type PipelineOptions } from './create-pipeline.ts';
export { Hold, type HoldObserver, type HoldOptions, type HoldOutcome, type Takers } from './hold.ts';
export {
  LiveModelDirectory,
  type ModelDirectoryOptions,
  type RoutableModel,
  type Worker,
} from './model-directory.ts';
export { modelNotFound, modelNotReady } from './model-errors.ts';
export { ModelStore, type ModelStoreOptions, type OpenModel } from './model-store.ts';
export { nextPrefillState, type PrefillPool, type PrefillState, workerSetsOf } from './prefill-pool.ts';
export type { Bypass } from './prefill-stage.ts';
export { type CancelOutcome, RequestCanceller, type RequestCancellerOptions } from './request-canceller.ts';
export { type ExplanationSource, RoutingExplainer, type RoutingExplainerOptions } from './routing-explainer.ts';
export type {
  GenerateOptions,
  ModelDirectory,
  ModelReadiness,
  NamespaceReadiness,
  Pipeline,
  PipelineObserver,
  ServedModel,
} from './types.ts';
