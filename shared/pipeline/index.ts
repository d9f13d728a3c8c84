/**
 * @module pipeline
 * One request's life: resolve the model, render, tokenize, route, dispatch, detokenize, stop, count.
 */
export {
  conditionalBypass,
  type ExplanationSource,
  RoutingExplainer,
  type RoutingExplainerOptions,
} from './control/routing-explainer.ts';
export {
  CacheClearer,
  type CacheClearerOptions,
  type CancelOutcome,
  type ClearedWorker,
  type ControlCaller,
  RequestCanceller,
} from './control/worker-calls.ts';
export { createPipeline, type PipelineOptions } from './create-pipeline.ts';
export { FollowedPools } from './models/followed-pools.ts';
export { LiveModelDirectory, type ModelDirectoryOptions } from './models/model-directory.ts';
export { missingModelHint, modelNotFound, modelNotReady } from './models/model-errors.ts';
export { ModelStore, type ModelStoreOptions, type OpenModel } from './models/model-store.ts';
export {
  nextPrefillState,
  type PrefillPool,
  type PrefillState,
  type RoutableModel,
  type Worker,
  type WorkersOfPool,
  workerSetsOf,
} from './models/routable-model.ts';
export {
  BusyThresholds,
  type BusyThresholdValues,
  type GenerateOptions,
  type ModelDirectory,
  type ModelReadiness,
  type NamespaceReadiness,
  type Pipeline,
  type PipelineObserver,
  type PromptTokenIds,
  type ServedModel,
} from './pipeline.ts';
export { MediaMemory } from './prompt/media-memory.ts';
export {
  type ColdStartObserver,
  type ColdStartOptions,
  type ColdStartOutcome,
  ColdStartQueue,
  type WorkerCapacity,
} from './run/cold-start-queue.ts';
export type { Bypass } from './run/prefill-stage.ts';
