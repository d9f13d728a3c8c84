/**
 * @module pipeline
 * One request's life: resolve the model, render, tokenize, route, dispatch, detokenize, stop, count.
 */

export { CacheClearer, type CacheClearerOptions, type ClearedWorker } from './control/cache-clearer.ts';
export type { ControlCaller } from './control/control-endpoints.ts';
export { type CancelOutcome, RequestCanceller } from './control/request-canceller.ts';
export { type ExplanationSource, RoutingExplainer, type RoutingExplainerOptions } from './control/routing-explainer.ts';
export { createPipeline, type PipelineOptions } from './create-pipeline.ts';
export { conditionalBypass } from './disaggregation/conditional-bypass.ts';
export { nextPrefillState, type PrefillPool, type PrefillState, workerSetsOf } from './disaggregation/prefill-pool.ts';
export type { Bypass } from './disaggregation/prefill-stage.ts';
export { BusyThresholds, type BusyThresholdValues } from './models/busy-thresholds.ts';
export {
  LiveModelDirectory,
  type ModelDirectoryOptions,
  type RoutableModel,
  type Worker,
} from './models/model-directory.ts';
export { missingModelHint, modelNotFound, modelNotReady } from './models/model-errors.ts';
export { ModelStore, type ModelStoreOptions, type OpenModel } from './models/model-store.ts';
export { Hold, type HoldObserver, type HoldOptions, type HoldOutcome, type Takers } from './run/hold.ts';
export type {
  GenerateOptions,
  ModelDirectory,
  ModelReadiness,
  NamespaceReadiness,
  Pipeline,
  PipelineObserver,
  ServedModel,
} from './types.ts';
