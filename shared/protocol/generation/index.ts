/**
 * @module protocol/generation
 * The waist of the hourglass. Dialects decode to `GenerationRequest` and encode through a `GenerationSink`; the pipeline turns the
 * first into an `EngineRequest`, sends it to a worker and turns `EngineOutput` back. N dialects above, M engines below.
 */

export { logprobsMemory, textMemory, tokensThatFit, valueMemory } from './answer-memory.ts';
export { BYTES_PER_TOKEN } from './bytes-per-token.ts';
export { ENDPOINTS, type Endpoint, enginePathOf } from './endpoints.ts';
export {
  type CompletionUsage,
  type EmbeddingRecord,
  type EngineFinishReason,
  type EngineOutput,
  type NamedLogprob,
  type OutputSink,
  readEmbeddings,
  type TokenLogprob,
  type TopLogprob,
} from './engine-output.ts';
export {
  type BootstrapInfo,
  type EngineInput,
  type EngineRequest,
  isMovable,
  isPinned,
  type PrefillResult,
  RELEASE_PREFILL,
} from './engine-request.ts';
export type {
  ChatMessage,
  GenerationRequest,
  PromptInput,
  ReasoningOptions,
  RequestType,
  ToolChoice,
  ToolDefinition,
} from './generation-request.ts';
export type {
  FinishReason,
  GenerationSink,
  ServingWorkers,
  TextDelta,
  TextFinish,
  Usage,
} from './generation-sink.ts';
export { healthCheckRequest, type ProbedModel } from './health-check.ts';
export type {
  EmbeddingOptions,
  GuidedDecoding,
  OutputOptions,
  RouterConfigOverride,
  RoutingConstraints,
  RoutingHints,
  SamplingOptions,
  StopConditions,
} from './options.ts';
export { cutLongOutput, readEngineOutput } from './read-engine-output.ts';
export { requestKeyOf, requestNameOf } from './request-key.ts';
export { decodeEngineRequest, type EngineRequestRecord, encodeEngineRequest } from './wire.ts';
