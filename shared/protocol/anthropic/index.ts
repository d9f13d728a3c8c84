/**
 * @module protocol/anthropic
 * The Messages bodies as Anthropic publishes them: types (zod), checks, and the way to `GenerationRequest`, which leads
 * over the chat body that says the same.
 */
export {
  decodeCountTokens,
  decodeMessages,
  estimateTokens,
  type MessagesDecodeOptions,
  parseCountTokensBody,
  parseMessagesBody,
} from './decode-messages.ts';
export {
  type CountTokensBody,
  countTokensSchema,
  MESSAGES_KEYS,
  type MessagesBody,
  messagesSchema,
} from './messages-schema.ts';
