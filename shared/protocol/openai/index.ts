/**
 * @module protocol/openai
 * The OpenAI bodies as published, with Dynamo's extensions: types (zod), bounds, and the way to `GenerationRequest`.
 */
export {
  type BodySchema,
  chatBody,
  compactBody,
  completionsBody,
  inputTokensBody,
  responsesBody,
} from './body-schemas.ts';
export type { ChatBody, CompletionsBody } from './chat-schema.ts';
export { type DecodedChat, decodeChat, parseChatBody } from './decode-chat.ts';
export { type DecodedCompletions, decodeCompletions, parseCompletionsBody } from './decode-completions.ts';
export type {
  DecodeContext,
  OpenAiDecodeSettings,
  RequestHeaders,
} from './decode-context.ts';
export { assembleTextless, promptOf, type UsageReporting } from './decode-request.ts';
export { checkRange, invalidValue, requireShape } from './field-checks.ts';
export { RESPONSES_KEYS, type ResponsesBody } from './responses/body-schema.ts';
export {
  COMPACT_KEYS,
  COMPACTION_TRIGGER,
  checkResponsesBody,
  type DecodedResponses,
  decodeResponses,
  estimateInputTokens,
  type ParsedResponses,
  parseCompactBody,
  parseResponsesBody,
  type ResponseEcho,
} from './responses/decode-responses.ts';
export type { CallShape } from './responses/decode-tools.ts';
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
export { ignoredKeyLabels } from './root-keys.ts';
export { atMost } from './shape-check.ts';
export { i32, modelName, RANGES, ranged, u32 } from './shared-fields.ts';
