/**
 * @module protocol/openai
 * The OpenAI bodies as published, with Dynamo's extensions: types (zod), bounds, and the way to `GenerationRequest`.
 */
export {
  type BodySchema,
  type BusyThresholdBody,
  bodySchemas,
  checkBusyThresholdBody,
  parseBusyThresholdBody,
} from './body-schemas.ts';
export type { ChatBody } from './chat-schema.ts';
export type { CompletionsBody } from './completions-schema.ts';
export { type DecodedChat, decodeChat, parseChatBody } from './decode-chat.ts';
export { type DecodedCompletions, decodeCompletions, parseCompletionsBody } from './decode-completions.ts';
export {
  type DecodeContext,
  defaultDecodeSettings,
  type OpenAiDecodeSettings,
  type RequestHeaders,
} from './decode-context.ts';
export { type DecodedEmbeddings, decodeEmbeddings, parseEmbeddingsBody } from './decode-embeddings.ts';
export {
  decodeImages,
  decodeVideos,
  type NamedImagesBody,
  parseImagesBody,
  parseVideosBody,
} from './decode-media.ts';
export type { UsageReporting } from './decode-request.ts';
export type { EmbeddingsBody } from './embeddings-schema.ts';
export { ignoredKeyLabels } from './ignored-keys.ts';
export type { ImagesBody } from './images-schema.ts';
export { type JsonBody, jsonSteps, parseJsonBody, parseLargeJsonBody, parseOwnJson } from './json-body.ts';
export { isLongJson, jsonPieces, LazyList, objectPieces } from './json-writer.ts';
export {
  type CallKind,
  type CallShape,
  COMPACT_KEYS,
  COMPACTION_TRIGGER,
  checkResponsesBody,
  type DecodedResponses,
  decodeResponses,
  estimateInputTokens,
  type InputItem,
  itemIdOf,
  type OutputKind,
  openSummary,
  type ParsedResponses,
  parseCompactBody,
  parseResponsesBody,
  RESPONSES_KEYS,
  type ResponseEcho,
  type ResponsesBody,
  responseIdOf,
  responseIdOfItem,
  sealSummary,
  toListedItems,
} from './responses/index.ts';
export type { VideosBody } from './videos-schema.ts';
