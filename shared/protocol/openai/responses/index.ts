/**
 * @module protocol/openai/responses
 * The Responses API as published: its body and items, the chat they stand for, and what its answers repeat of them.
 */
export { RESPONSES_KEYS } from './body-keys.ts';
export type { ResponsesBody } from './body-schema.ts';
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
} from './decode-responses.ts';
export { estimateInputTokens } from './estimate-input.ts';
export { type CallKind, itemIdOf, type OutputKind, responseIdOf, responseIdOfItem } from './item-ids.ts';
export type { InputItem } from './items-schema.ts';
export { openSummary, sealSummary } from './items-to-messages.ts';
export { toListedItems } from './parse-items.ts';
export type { CallShape } from './tool-list.ts';
