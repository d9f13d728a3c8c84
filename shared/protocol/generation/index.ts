/**
 * @module protocol/generation
 * The waist of the hourglass. Dialects decode to `GenerationRequest` and encode through a `GenerationSink`; the pipeline turns the
 * first into an `EngineRequest`, sends it to a worker and turns `EngineOutput` back. N dialects above, M engines below.
 */

export {
  type CompletionUsage,
  cutLongOutput,
  type EmbeddingRecord,
  type EngineFinishReason,
  type EngineOutput,
  type NamedLogprob,
  type OutputSink,
  readEmbeddings,
  readEngineOutput,
  type TokenLogprob,
  type TopLogprob,
} from './engine-output.ts';
export {
  type BootstrapInfo,
  type EmbeddingOptions,
  type EngineInput,
  type EngineRequest,
  type GuidedDecoding,
  isMovable,
  isPinned,
  type OutputOptions,
  type PrefillResult,
  RELEASE_PREFILL,
  type RouterConfigOverride,
  type RoutingConstraints,
  type RoutingHints,
  type SamplingOptions,
  type StopConditions,
} from './engine-request.ts';
export {
  BYTES_PER_TOKEN,
  type ChatMessage,
  ENDPOINTS,
  type Endpoint,
  enginePathOf,
  type GenerationRequest,
  MODEL_TYPES,
  type ModelKind,
  type PromptInput,
  type ReasoningOptions,
  type RequestType,
  requestKeyOf,
  requestNameOf,
  type ToolChoice,
  type ToolDefinition,
} from './generation-request.ts';
export {
  type FinishReason,
  type GenerationSink,
  logprobsMemory,
  type ServingWorkers,
  type TextDelta,
  type TextFinish,
  textMemory,
  tokensThatFit,
  type Usage,
  valueMemory,
} from './generation-sink.ts';
export {
  decodeEngineRequest,
  type EngineRequestRecord,
  encodeEngineRequest,
  healthCheckRequest,
  type ProbedModel,
} from './wire.ts';
