import type * as z from 'zod';
import { busyThresholdSchema } from './busy-threshold.ts';
import { chatSchema } from './chat-schema.ts';
import { completionsSchema } from './completions-schema.ts';
import { embeddingsSchema } from './embeddings-schema.ts';
import { imageEditsSchema, imagesSchema } from './images-schema.ts';
import { USABLE_KEYS } from './responses/body-keys.ts';
import { compactSchema, inputTokensSchema, responsesSchema } from './responses/body-schema.ts';
import { CHAT_KEYS, COMPLETIONS_KEYS, usableKeys } from './root-keys.ts';
import { videosSchema } from './videos-schema.ts';

/** A body as it is checked, for those who describe it. */
export interface BodySchema {
  readonly schema: z.ZodType;
  /** Every root key that can be used; undefined where the schema says it, and where others are passed on. */
  readonly keys: readonly string[] | undefined;
  /** Other root keys are ignored, not refused. @default false */
  readonly ignoresOtherKeys?: boolean;
}

/** The bodies of the OpenAI routes by the names that the OpenAPI document gives them. */
export const bodySchemas = {
  ChatCompletionRequest: { schema: chatSchema, keys: usableKeys(CHAT_KEYS) },
  CompletionRequest: { schema: completionsSchema, keys: usableKeys(COMPLETIONS_KEYS) },
  ResponseRequest: { schema: responsesSchema, keys: USABLE_KEYS, ignoresOtherKeys: true },
  CompactRequest: { schema: compactSchema, keys: undefined },
  InputTokensRequest: { schema: inputTokensSchema, keys: undefined },
  EmbeddingRequest: { schema: embeddingsSchema, keys: undefined },
  ImageRequest: { schema: imagesSchema, keys: undefined },
  ImageEditRequest: { schema: imageEditsSchema, keys: undefined },
  VideoRequest: { schema: videosSchema, keys: undefined },
  BusyThresholdRequest: { schema: busyThresholdSchema, keys: undefined },
} as const satisfies Readonly<Record<string, BodySchema>>;
