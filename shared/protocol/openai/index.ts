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
export type {
  DecodeContext,
  OpenAiDecodeSettings,
  RequestHeaders,
} from './decode-context.ts';
export {
  type DecodedEmbeddings,
  decodeEmbeddings,
  type EmbeddingsBody,
  parseEmbeddingsBody,
} from './decode-embeddings.ts';
export {
  decodeImages,
  decodeVideos,
  type ImagesBody,
  type NamedImagesBody,
  parseImagesBody,
  parseVideosBody,
  type VideosBody,
} from './decode-media.ts';
export { assembleTextless, type UsageReporting } from './decode-request.ts';
export { RESPONSES_KEYS, type ResponsesBody } from './responses/body-schema.ts';
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
} from './responses/decode-responses.ts';
export { estimateInputTokens } from './responses/estimate-input.ts';
export {
  type CallKind,
  type InputItem,
  itemIdOf,
  type OutputKind,
  responseIdOf,
  responseIdOfItem,
  storedIdOf,
  toListedItems,
} from './responses/items.ts';
export { openSummary, sealSummary } from './responses/items-to-messages.ts';
export type { CallShape } from './responses/tool-list.ts';
export { ignoredKeyLabels } from './root-keys.ts';
