import * as z from 'zod';
import { atMost } from '../openai/shape-check.ts';
import { i32, modelName, nvextSchema, RANGES, ranged, u32 } from '../openai/shared-fields.ts';
import { blockContent, saidByModel } from './block-schemas.ts';

/** Message of a conversation. Content that a model or another server wrote is read as it comes, and never refused. */
const messageSchema = z.discriminatedUnion('role', [
  z.looseObject({ role: z.literal('user'), content: blockContent }),
  z.looseObject({ role: z.literal('system'), content: blockContent }),
  z.looseObject({ role: z.literal('assistant'), content: saidByModel }),
]);
export type MessageParam = z.infer<typeof messageSchema>;

const toolSchema = z.looseObject({
  name: z.string().nullish(),
  type: z.string().nullish(),
  description: z.string().nullish(),
  input_schema: z.unknown().optional(),
  strict: z.boolean().nullish(),
});
export type ToolParam = z.infer<typeof toolSchema>;

const outputFormat = z.looseObject({ type: z.string(), schema: z.unknown().optional() });

/** Fields that make up a prompt; `count_tokens` has them too. */
const promptFields = {
  messages: atMost(z.array(messageSchema), 'messages', { minItems: 1 }),
  system: z
    .union([z.string(), atMost(z.array(z.looseObject({ type: z.literal('text'), text: z.string() })), 'parts')])
    .nullish(),
  tools: z.array(toolSchema).nullish(),
  tool_choice: z
    .looseObject({
      type: z.enum(['auto', 'any', 'none', 'tool']),
      name: z.string().nullish(),
      disable_parallel_tool_use: z.boolean().nullish(),
    })
    .nullish(),
  thinking: z.looseObject({ type: z.string(), budget_tokens: u32.nullish() }).nullish(),
  output_config: z.looseObject({ format: outputFormat.nullish(), effort: z.string().nullish() }).nullish(),
};

/** Body of `POST /v1/messages/count_tokens`. */
export const countTokensSchema = z.looseObject({ model: modelName, ...promptFields });
export type CountTokensBody = z.infer<typeof countTokensSchema>;

/** Body of `POST /v1/messages`: types only. Other root keys are accepted and ignored. */
export const messagesSchema = z.looseObject({
  model: modelName,
  max_tokens: u32,
  ...promptFields,
  stream: z.boolean().nullish(),
  temperature: ranged(z.number(), RANGES.temperature).nullish(),
  top_p: ranged(z.number(), RANGES.top_p).nullish(),
  top_k: i32.meta({ minimum: -1 }).nullish(),
  stop_sequences: z.array(z.string()).nullish(),
  nvext: nvextSchema.nullish(),
});
export type MessagesBody = z.infer<typeof messagesSchema>;

/** Root keys of the published body, including the beta one, that change nothing here. */
const IGNORED = [
  'betas',
  'billing_policy',
  'cache_control',
  'compaction',
  'container',
  'context_management',
  'diagnostics',
  'fallback_credit_token',
  'fallbacks',
  'inference_geo',
  'mcp_servers',
  'metadata',
  'output_format',
  'service_tier',
  'speed',
  'thread',
  'user_profile_id',
  'workspace_id',
] as const;

/** Root keys that have a meaning for the route, or are published and harmless. */
export const MESSAGES_KEYS: ReadonlySet<string> = new Set([...Object.keys(messagesSchema.shape), ...IGNORED]);
