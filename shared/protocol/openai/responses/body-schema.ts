import * as z from 'zod';
import { unsupported } from '../field-checks.ts';
import { atMost } from '../shape-check.ts';
import {
  anyObject,
  modelName,
  nvextSchema,
  positiveU32,
  RANGES,
  ranged,
  reasoningEffort,
  serviceTier,
  u32,
} from '../shared-fields.ts';
import { inputItem, tool } from './item-schemas.ts';

const toolChoice = z.union([
  z.enum(['none', 'auto', 'required']),
  z.looseObject({
    type: z.string(),
    name: z.string().optional(),
    mode: z.enum(['auto', 'required']).optional(),
    tools: atMost(z.array(anyObject), 'names').optional(),
  }),
]);

const format = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text') }),
  z.looseObject({ type: z.literal('json_object') }),
  z.looseObject({
    type: z.literal('json_schema'),
    name: z.string(),
    schema: anyObject,
    description: z.string().nullish(),
    strict: z.boolean().nullish(),
  }),
]);

const reasoning = z.looseObject({
  effort: reasoningEffort.nullish(),
  summary: z.enum(['auto', 'concise', 'detailed']).nullish(),
});

/** Fields that `POST /v1/responses` and `/v1/responses/input_tokens` read alike. */
const promptFields = {
  instructions: z.string().nullish(),
  tools: atMost(z.array(tool), 'names').nullish(),
};

/** Rule for the description of the API that a body has a conversation; it is checked with messages of its own. */
const NEEDS_CONVERSATION = {
  anyOf: ['input', 'previous_response_id'].map((name) => ({
    required: [name],
    properties: { [name]: { not: { type: 'null' } } },
  })),
};

/** Body of `POST /v1/responses`: types only. Items of `input` are checked one by one, later. */
export const responsesSchema = z
  .looseObject({
    // first, because the error names the first wrong field
    input: z.union([z.string(), atMost(z.array(inputItem), 'messages')]).nullish(),
    model: modelName.nullish().meta({ type: 'string' }), // a missing model is reported like an empty one
    ...promptFields,
    stream: z.boolean().nullish(),
    stream_options: anyObject.nullish(),
    store: z.boolean().nullish(),
    background: z.boolean().nullish(),
    previous_response_id: z.string().nullish(),
    conversation: z.union([z.string(), anyObject]).nullish(),
    prompt: anyObject.nullish(),
    max_tool_calls: u32.nullish(),
    max_output_tokens: positiveU32.nullish(),
    temperature: ranged(z.number(), RANGES.temperature).nullish(),
    top_p: ranged(z.number(), RANGES.top_p).nullish(),
    presence_penalty: ranged(z.number(), RANGES.presence_penalty).nullish(),
    frequency_penalty: ranged(z.number(), RANGES.frequency_penalty).nullish(),
    top_logprobs: z.int().min(0).max(255).nullish(),
    tool_choice: toolChoice.nullish(),
    parallel_tool_calls: z.boolean().nullish(),
    reasoning: reasoning.nullish(),
    text: z.looseObject({ format: format.nullish() }).nullish(),
    include: atMost(z.array(z.string()), 'names').nullish(),
    metadata: z.record(z.string(), z.string()).nullish(),
    truncation: z.enum(['auto', 'disabled']).nullish(),
    service_tier: serviceTier.nullish(),
    prompt_cache_key: z.string().nullish(),
    prompt_cache_retention: z.string().nullish(),
    safety_identifier: z.string().nullish(),
    user: z.string().nullish(),
    nvext: nvextSchema.nullish(),
  })
  .meta({ required: ['model'], ...NEEDS_CONVERSATION });

/** Body of `POST /v1/responses/input_tokens`: every field may be left out. */
export const inputTokensSchema = z.looseObject({
  input: z.union([z.string(), atMost(z.array(inputItem), 'messages')]).nullish(),
  ...promptFields,
});

/** Body of `POST /v1/responses/compact`: every field may be left out, but at least one must say what to compact. */
export const compactSchema = z
  .looseObject({
    model: modelName.nullish(),
    input: z.union([z.string(), z.array(inputItem)]).nullish(),
    instructions: z.string().nullish(),
    previous_response_id: z.string().nullish(),
    prompt_cache_key: z.string().nullish(),
    prompt_cache_options: anyObject.nullish(),
    prompt_cache_retention: z.string().nullish(),
    service_tier: z.string().nullish(),
  })
  .meta(NEEDS_CONVERSATION);

export type ResponsesBody = z.infer<typeof responsesSchema>;
export type ResponsesTool = z.infer<typeof tool>;
export type InputTokensBody = z.infer<typeof inputTokensSchema>;
export type CompactBody = z.infer<typeof compactSchema>;

/**
 * Keys that change the answer and that the product cannot honour. They are reported as the client's mistake: clients
 * retry what fails with 501.
 */
const REFUSED = ['background', 'prompt', 'conversation', 'moderation'] as const;

/** Published keys that the product does not read, and the data that codex sends about itself with every turn. */
const UNTYPED = ['context_management', 'prompt_cache_options', 'client_metadata'];

/** Root keys that a client can use, for the description of the API. */
export const USABLE_KEYS: readonly string[] = [
  ...Object.keys(responsesSchema.shape).filter((key) => !(REFUSED as readonly string[]).includes(key)),
  ...UNTYPED,
];
/** Root keys that have a meaning for the route, or are published and harmless. */
export const RESPONSES_KEYS: ReadonlySet<string> = new Set([...USABLE_KEYS, ...REFUSED]);

/**
 * Refuses published keys that the product cannot honour. Unknown keys pass: agents send keys of their own, and new ones
 * with every release.
 * @throws ServeError `unsupported_parameter`.
 */
export function checkKeys(body: Readonly<Record<string, unknown>>): void {
  for (const key of REFUSED) {
    if (body[key] != null && body[key] !== false) throw unsupported(key);
  }
}
