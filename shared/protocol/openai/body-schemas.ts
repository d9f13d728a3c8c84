import * as z from 'zod';
import type { JsonBody } from '../json/json-body.ts';
import { chatSchema, completionsSchema } from './chat-schema.ts';
import { embeddingsSchema } from './decode-embeddings.ts';
import { imageEditsSchema, imagesSchema, videosSchema } from './decode-media.ts';
import { invalidValue, requireShape } from './field-checks.ts';
import { compactSchema, inputTokensSchema, responsesSchema, USABLE_KEYS } from './responses/body-schema.ts';
import { CHAT_USABLE_KEYS, COMPLETIONS_KEYS } from './root-keys.ts';

/** Body of `POST /busy_threshold`. Unknown keys are ignored. */
const busyThresholdSchema = z.looseObject({
  model: z.string(),
  active_decode_blocks_threshold: z.number().nullish(),
  active_prefill_tokens_threshold: z.int().min(0).nullish(),
  active_prefill_tokens_threshold_frac: z.number().nullish(),
});

export type BusyThresholdBody = z.infer<typeof busyThresholdSchema>;

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
  ChatCompletionRequest: { schema: chatSchema, keys: CHAT_USABLE_KEYS },
  CompletionRequest: { schema: completionsSchema, keys: [...COMPLETIONS_KEYS] },
  ResponseRequest: { schema: responsesSchema, keys: USABLE_KEYS, ignoresOtherKeys: true },
  CompactRequest: { schema: compactSchema, keys: undefined },
  InputTokensRequest: { schema: inputTokensSchema, keys: undefined },
  EmbeddingRequest: { schema: embeddingsSchema, keys: undefined },
  ImageRequest: { schema: imagesSchema, keys: undefined },
  ImageEditRequest: { schema: imageEditsSchema, keys: undefined },
  VideoRequest: { schema: videosSchema, keys: undefined },
  BusyThresholdRequest: { schema: busyThresholdSchema, keys: undefined },
} as const satisfies Readonly<Record<string, BodySchema>>;

/** Checks the types of the body. @throws ServeError; see `requireShape`. */
export function parseBusyThresholdBody(body: JsonBody): BusyThresholdBody {
  return requireShape(busyThresholdSchema, body);
}

/** Checks the bounds of the body. @throws ServeError `invalid_value` */
export function checkBusyThresholdBody(body: BusyThresholdBody): void {
  const share = body.active_decode_blocks_threshold ?? 0;
  if (share < 0 || share > 1) {
    const param = 'active_decode_blocks_threshold';
    throw invalidValue(`${param} must be between 0.0 and 1.0, got ${share}`, param);
  }
  const fraction = body.active_prefill_tokens_threshold_frac ?? 0;
  if (fraction < 0) {
    const param = 'active_prefill_tokens_threshold_frac';
    throw invalidValue(`${param} must be a finite value greater than or equal to 0.0, got ${fraction}`, param);
  }
}
