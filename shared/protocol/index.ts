/**
 * @module protocol Formats on the wire, and the internal contract between dialects and engines (`generation/`): every
 * dialect decodes to `GenerationRequest` and encodes through a `GenerationSink`, and every engine uses the same two.
 * `openai/`, `anthropic/` and `kserve/` read and write the clients' formats. `planner/` has the events that fleets send
 * to the planner. `json/` reads bodies with bounds and writes them in pieces, so that a large one blocks no other.
 */
export { warmsCache } from './anthropic/cache-warming.ts';
export {
  decodeCountTokens,
  decodeMessages,
  type MessagesDecodeOptions,
  parseCountTokensBody,
  parseMessagesBody,
} from './anthropic/decode-messages.ts';
export { countTokensSchema, MESSAGES_KEYS, messagesSchema } from './anthropic/messages-schema.ts';
export { DynamoAnswerReader } from './dynamo/answer-reader.ts';
export { dynamoRecoveryEndpoint, isDynamoRecovery } from './dynamo/endpoints.ts';
export { fromPreprocessedRequest } from './dynamo/read-request.ts';
export { readTypedError } from './dynamo/typed-error.ts';
export { toDynamoOutput, toTypedError } from './dynamo/write-answer.ts';
export { toPreprocessedRequest } from './dynamo/write-request.ts';
export {
  type CompletionUsage,
  cutLongOutput,
  type EmbeddingRecord,
  type EngineFinishReason,
  type EngineOutput,
  type NamedLogprob,
  type OutputSink,
  type PromptMedia,
  readEmbeddings,
  readEngineOutput,
  type TokenLogprob,
  type TopLogprob,
} from './generation/engine-output.ts';
export {
  type BootstrapInfo,
  type EngineInput,
  type EngineRequest,
  type GuidedDecoding,
  isMovable,
  isPinned,
  MOVES_HEADER,
  type OutputOptions,
  RELEASE_PREFILL,
  type RouterConfigOverride,
  type RoutingConstraints,
  type RoutingHints,
  type SamplingOptions,
  type StopConditions,
} from './generation/engine-request.ts';
export { finishReasonOf, textFinishOf } from './generation/finish-words.ts';
export { ForwardingSink } from './generation/forwarding-sink.ts';
export {
  asksForDryRun,
  BYTES_PER_TOKEN,
  type ChatMessage,
  ENDPOINTS,
  type Endpoint,
  enginePathOf,
  type GenerationRequest,
  MODEL_TYPES,
  type ModelKind,
  type PromptInput,
  type RequestType,
  requestKeyOf,
  requestNameOf,
  type ToolChoice,
  type ToolDefinition,
} from './generation/generation-request.ts';
export {
  type FinishReason,
  type GenerationSink,
  logprobsMemory,
  type ServingWorkers,
  type TextDelta,
  type TextFinish,
  textMemory,
  type Usage,
  valueMemory,
} from './generation/generation-sink.ts';
export { LeftOut } from './generation/left-out.ts';
export { estimatePromptTokens } from './generation/prompt-estimate.ts';
export { readUsage } from './generation/reported-usage.ts';
export { decodeEngineRequest, encodeEngineRequest, healthCheckRequest } from './generation/wire.ts';
export { type JsonBody, parseExactRecord, parseJsonBody, parseLargeJsonBody, parseOwnJson } from './json/json-body.ts';
export { ExactNumber, exactMember, keysInOrder, readJson } from './json/json-source.ts';
export { isLongJson, jsonPieces, LazyList, objectPieces } from './json/json-writer.ts';
export { completionsOf } from './kserve/completions-request.ts';
export {
  decodeModelInferRequest,
  encodeModelInferResponse,
  encodeModelStreamInferResponse,
} from './kserve/infer-codec.ts';
export {
  DATA_TYPES,
  type InferParameters,
  type InferTensor,
  type ModelInferRequest,
  type ModelInferResponse,
  NO_PARAMETERS,
  recordTypeOf,
  wireNameOf,
} from './kserve/messages.ts';
export { framedBytes } from './kserve/tensor-contents.ts';
export {
  BadTensorResponse,
  type TensorRecord,
  type TensorRequestRecord,
  type TensorResponseRecord,
  tensorRequestOf,
  tensorResponseOf,
} from './kserve/tensor-record.ts';
export { readTensor, type TensorElements, type TensorValues, writeTensor } from './kserve/tensor-values.ts';
export {
  type BodySchema,
  chatBody,
  compactBody,
  completionsBody,
  inputTokensBody,
  responsesBody,
} from './openai/body-schemas.ts';
export { decodeChat, parseChatBody } from './openai/decode-chat.ts';
export { type DecodedCompletions, decodeCompletions, parseCompletionsBody } from './openai/decode-completions.ts';
export type { DecodeContext, OpenAiDecodeSettings } from './openai/decode-context.ts';
export { assembleTextless, promptOf } from './openai/decode-request.ts';
export { checkRange, invalidValue, requireShape } from './openai/field-checks.ts';
export { mediaPart } from './openai/history-parts.ts';
export { RESPONSES_KEYS, type ResponsesBody } from './openai/responses/body-schema.ts';
export {
  COMPACT_KEYS,
  COMPACTION_TRIGGER,
  checkResponsesBody,
  type DecodedResponses,
  decodeResponses,
  type ParsedResponses,
  parseCompactBody,
  parseResponsesBody,
  type ResponseEcho,
} from './openai/responses/decode-responses.ts';
export type { CallShape } from './openai/responses/decode-tools.ts';
export { estimateInputTokens } from './openai/responses/estimate-input.ts';
export {
  type InputItem,
  itemIdOf,
  type OutputKind,
  readItem,
  responseIdOf,
  responseIdOfItem,
  storedIdOf,
  toListedItems,
} from './openai/responses/items.ts';
export { openSummary, sealSummary } from './openai/responses/items-to-messages.ts';
export { ignoredKeyLabels } from './openai/root-keys.ts';
export { atMost } from './openai/shape-check.ts';
export { i32, modelName, RANGES, ranged, u32 } from './openai/shared-fields.ts';
export { shownKindsOf } from './openai/shown-kinds.ts';
export type {
  AggregatedPool,
  EngineFacts,
  InterruptionKind,
  PassRow,
  PlannerEventOf,
  PlannerSignal,
  PoolName,
  RankLoadRow,
  TrafficTotals,
} from './planner/events.ts';
export { fromPassRow, toPassRow } from './planner/pass-rows.ts';
export {
  deduplicationIdOf,
  groupOf,
  PLANNER_EVENT_BYTES_MAX,
  readPlannerEvent,
  readPlannerText,
  sourceOf,
} from './planner/read-event.ts';
export {
  AGGREGATED_RANKS_MAX,
  HELD_TOPIC,
  NO_TRAFFIC,
  PASS_SAMPLES_MAX,
  PLANNER_EVENT_VERSION,
  RETRY_HEADER,
  ROLLUP_TOPIC,
  START_PHASES,
  type StartPhase,
} from './planner/topics.ts';
export {
  instanceKey,
  instanceKeyOf,
  packSortedKeys,
  packWorkerKeys,
  unpackSortedKeys,
  unpackWorkerKeys,
  workerKey,
} from './planner/worker-keys.ts';
