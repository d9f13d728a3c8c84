import type * as z from 'zod';
import { chatSchema, completionsSchema } from './chat-schema.ts';
import { compactSchema, inputTokensSchema, responsesSchema, USABLE_KEYS } from './responses/body-schema.ts';
import { CHAT_USABLE_KEYS, COMPLETIONS_KEYS } from './root-keys.ts';

/** Schema of a body as it is checked, for descriptions of the API. */
export interface BodySchema {
  readonly schema: z.ZodType;
  /** Every root key that can be used. @default the schema lists them, or others are passed on */
  readonly keys?: readonly string[];
  /** Whether other root keys are ignored instead of refused. @default false */
  readonly ignoresOtherKeys?: boolean;
}

export const chatBody: BodySchema = { schema: chatSchema, keys: CHAT_USABLE_KEYS };
export const completionsBody: BodySchema = { schema: completionsSchema, keys: [...COMPLETIONS_KEYS] };
export const responsesBody: BodySchema = { schema: responsesSchema, keys: USABLE_KEYS, ignoresOtherKeys: true };
export const compactBody: BodySchema = { schema: compactSchema };
export const inputTokensBody: BodySchema = { schema: inputTokensSchema };
