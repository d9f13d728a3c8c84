/**
 * @module pipeline
 * One request's life: resolve the model, render, tokenize, route, dispatch, detokenize, stop, count.
 */
export { conditionalBypass, type ExplanationSource, RoutingExplainer } from './control/routing-explainer.ts';
export { CacheClearer, RequestCanceller } from './control/worker-calls.ts';
export { createPipeline } from './create-pipeline.ts';
export { type ChatProcessor, chatRefusal, passesChats } from './models/chat-processor.ts';
export { FollowedPools } from './models/followed-pools.ts';
export { LiveModelDirectory } from './models/model-directory.ts';
export { missingModelHint, modelNotFound, modelNotReady } from './models/model-errors.ts';
export { ModelStore, type OpenModel } from './models/model-store.ts';
export type { PlannedName } from './models/planned-models.ts';
export {
  nextPrefillState,
  type PrefillState,
  type RoutableModel,
  type Worker,
} from './models/routable-model.ts';
export { setsOf, workerSetsOf } from './models/worker-sets.ts';
export {
  BusyThresholds,
  type BusyThresholdValues,
  type GenerateOptions,
  type ModelReadiness,
  type NamespaceReadiness,
  type Pipeline,
  type PipelineObserver,
  type PromptObserver,
  type RefusedModel,
  type RequestObserver,
  type ServedModel,
  type StageObserver,
  servesType,
  type WorkerObserver,
} from './pipeline.ts';
export { MediaMemory } from './prompt/media-memory.ts';
export { ColdStartQueue } from './run/cold-start-queue.ts';
export type { Placement, Placer } from './run/placing.ts';
export type { Bypass } from './run/prefill-stage.ts';
