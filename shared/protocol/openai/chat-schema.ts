import * as z from 'zod';
import { atMost } from './shape-check.ts';
import {
  anyObject,
  nvextSchema,
  positiveU32,
  RANGES,
  ranged,
  reasoningEffort,
  serviceTier,
  sharedFields,
  u32,
} from './shared-fields.ts';

const textPart = z.looseObject({ type: z.literal('text'), text: z.string() });
/** Parts of user content; `file` and other kinds do not parse. */
const userPart = z.discriminatedUnion('type', [
  textPart,
  z.looseObject({ type: z.literal('image_url'), image_url: z.looseObject({ url: z.string() }) }),
  z.looseObject({ type: z.literal('video_url'), video_url: z.looseObject({ url: z.string() }) }),
  z.looseObject({ type: z.literal('audio_url'), audio_url: z.looseObject({ url: z.string() }) }),
  z.looseObject({
    type: z.literal('input_audio'),
    input_audio: z.looseObject({ data: z.string(), format: z.string() }),
  }),
]);
const refusalPart = z.looseObject({ type: z.literal('refusal'), refusal: z.string() });
const textContent = z.union([z.string(), atMost(z.array(textPart), 'parts')]);
const name = z.string().nullish();

const toolCall = z.looseObject({
  id: z.string(),
  type: z.literal('function').nullish(),
  function: z.looseObject({ name: z.string(), arguments: z.string() }),
});

/** One message; unknown keys are kept for the chat template. */
const messageSchema = z.discriminatedUnion('role', [
  z.looseObject({ role: z.literal('developer'), content: textContent, name }),
  z.looseObject({ role: z.literal('system'), content: textContent, name }),
  z.looseObject({
    role: z.literal('user'),
    content: z.union([z.string(), atMost(z.array(userPart), 'parts')]),
    name,
  }),
  z.looseObject({
    role: z.literal('assistant'),
    content: z
      .union([z.string(), atMost(z.array(z.discriminatedUnion('type', [textPart, refusalPart])), 'parts')])
      .nullish(),
    reasoning_content: z.union([z.string(), atMost(z.array(z.string()), 'parts')]).nullish(),
    refusal: z.string().nullish(),
    tool_calls: atMost(z.array(toolCall), 'parts').nullish(),
    name,
  }),
  z.looseObject({ role: z.literal('tool'), content: textContent, tool_call_id: z.string() }),
  z.looseObject({ role: z.literal('function'), content: z.string().nullish(), name: z.string() }),
]);

const toolSchema = z.looseObject({
  type: z.literal('function'),
  function: z.looseObject({
    name: z.string(),
    description: z.string().nullish(),
    parameters: z.unknown().optional(),
    strict: z.boolean().nullish(),
  }),
});

const toolChoice = z.union([
  z.enum(['none', 'auto', 'required']),
  z.looseObject({ type: z.literal('function'), function: z.looseObject({ name: z.string() }) }),
]);

const responseFormat = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text') }),
  z.looseObject({ type: z.literal('json_object') }),
  z.looseObject({
    type: z.literal('json_schema'),
    json_schema: z.looseObject({
      name: z.string().meta({ minLength: 1 }),
      schema: z.unknown().refine((schema) => schema !== undefined, { error: 'required', params: { isMissing: true } }),
      description: z.string().nullish(),
      strict: z.boolean().nullish(),
    }),
  }),
]);

const thinking = {
  anyOf: [
    { type: ['boolean', 'null'] },
    { type: 'object', required: ['type'], properties: { type: { enum: ['enabled', 'disabled', 'adaptive'] } } },
  ],
};

/** Body of `POST /v1/chat/completions`: types only; bounds have messages of their own. */
export const chatSchema = z.looseObject({
  messages: atMost(z.array(messageSchema), 'messages', { minItems: 1 }), // first, because the first field that is wrong is the one that is told
  ...sharedFields,
  logprobs: z.boolean().nullish(),
  top_logprobs: ranged(z.int().min(0).max(255), RANGES.top_logprobs).nullish(),
  max_completion_tokens: positiveU32.nullish(),
  response_format: responseFormat.nullish(),
  tools: z.array(toolSchema).nullish(),
  tool_choice: toolChoice.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  reasoning_effort: reasoningEffort.nullish(),
  add_generation_prompt: z.boolean().nullish(),
  continue_final_message: z.boolean().nullish(),
  chat_template_args: anyObject.nullish(),
  chat_template_kwargs: anyObject.nullish(),
  thinking: z.unknown().meta(thinking).optional(),
  media_io_kwargs: anyObject.nullish(),
  mm_processor_kwargs: anyObject.nullish(),
  service_tier: serviceTier.nullish(),
  store: z.boolean().nullish(),
  modalities: atMost(z.array(z.string()), 'names').nullish(),
  prediction: anyObject.nullish(),
  audio: anyObject.nullish(),
  prompt_cache_key: z.string().nullish(),
  web_search_options: anyObject.nullish(),
  function_call: z.union([z.string(), anyObject]).nullish(),
  functions: z.array(z.looseObject({ name: z.string(), parameters: anyObject })).nullish(),
  nvext: nvextSchema.nullish(),
});

export type ChatBody = z.infer<typeof chatSchema>;

const notEmpty = { minLength: 1 };
const atLeastOne = { minItems: 1 };

/** Text, token ids, or a batch of either. */
const promptInput = z.union([
  z.string().meta(notEmpty),
  z.array(z.string().meta(notEmpty)).meta(atLeastOne),
  z.array(u32).meta(atLeastOne),
  z.array(z.array(u32).meta(atLeastOne)).meta(atLeastOne),
]);

/** Body of `POST /v1/completions`: types only; bounds have messages of their own. */
export const completionsSchema = z
  .looseObject({
    ...sharedFields,
    prompt: promptInput.optional(),
    prompt_embeds: z.string().nullish(),
    suffix: z.string().nullish(),
    best_of: ranged(z.int().min(0).max(255), RANGES.best_of).nullish(),
    logprobs: ranged(z.int().min(0).max(255), RANGES.logprobs).nullish(),
    echo: z.boolean().nullish(),
    nvext: nvextSchema.nullish(),
  })
  .meta({ anyOf: [{ required: ['prompt'] }, { required: ['prompt_embeds'] }] });

export type CompletionsBody = z.infer<typeof completionsSchema>;
