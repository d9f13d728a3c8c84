import * as z from 'zod';
import type { ChatMessage, ToolDefinition } from '../generation/generation-request.ts';
import { atMost } from './shape-check.ts';
import {
  anyObject,
  nvextSchema,
  positiveU32,
  RANGES,
  ranged,
  reasoningEffort,
  STREAM_OPTIONS_RULE,
  serviceTier,
  sharedFields,
  u32,
} from './shared-fields.ts';

/** `tool_choice` restricted to functions, which is all that templates and engines support. */
export type FunctionChoice =
  | 'none'
  | 'auto'
  | 'required'
  | { readonly type: 'function'; readonly function: { readonly name: string } };

const textPart = z.looseObject({ type: z.literal('text'), text: z.string() });
/** Parts of a user's message; other kinds do not parse. */
const userPart = z.discriminatedUnion('type', [
  textPart,
  z.looseObject({ type: z.literal('image_url'), image_url: z.looseObject({ url: z.string() }) }),
  z.looseObject({ type: z.literal('video_url'), video_url: z.looseObject({ url: z.string() }) }),
  z.looseObject({ type: z.literal('audio_url'), audio_url: z.looseObject({ url: z.string() }) }),
  z.looseObject({
    type: z.literal('input_audio'),
    input_audio: z.looseObject({ data: z.string(), format: z.string() }),
  }),
  z.looseObject({
    type: z.literal('file'),
    file: z.looseObject({
      file_data: z.string().nullish(),
      filename: z.string().nullish(),
      file_id: z.string().nullish(),
    }),
  }),
]);
const textContent = z.union([z.string(), atMost(z.array(textPart), 'parts')]);
const name = z.string().nullish();
/** Field that a model or another server wrote: it is read as it comes, and never refused. */
const written = z.unknown().optional();

const instruction = [
  z.looseObject({ role: z.literal('developer'), content: textContent, name }),
  z.looseObject({ role: z.literal('system'), content: textContent, name }),
] as const;
const said = z.looseObject({
  role: z.literal('user'),
  content: z.union([z.string(), atMost(z.array(userPart), 'parts')]),
  name,
});
const history = [
  z.looseObject({ role: z.literal('assistant'), content: written, tool_calls: written, reasoning_content: written }),
  z.looseObject({ role: z.literal('tool'), content: written, tool_call_id: written }),
  z.looseObject({ role: z.literal('function'), content: written, name: written }),
] as const;

/** Message of a conversation; unknown keys are kept for the chat template. */
const messageSchema = z.discriminatedUnion('role', [...instruction, said, ...history]);

/** New message of the user. */
export const userMessage = said;

/** Message of a conversation before it is known which turns are new. */
const anyMessage = z.discriminatedUnion('role', [
  ...instruction,
  z.looseObject({ role: z.literal('user'), content: written }),
  ...history,
]);

const toolSchema = z.looseObject({
  type: z.string(),
  function: z
    .looseObject({
      name: z.string(),
      description: z.string().nullish(),
      parameters: z.unknown().optional(),
      strict: z.boolean().nullish(),
    })
    .optional(),
  custom: z
    .looseObject({ name: z.string(), description: z.string().nullish(), format: anyObject.nullish() })
    .optional(),
});

const toolChoice = z.union([
  z.enum(['none', 'auto', 'required']),
  z.looseObject({
    type: z.string(),
    function: z.looseObject({ name: z.string() }).optional(),
    custom: z.looseObject({ name: z.string() }).optional(),
    allowed_tools: z
      .looseObject({ mode: z.enum(['auto', 'required']), tools: atMost(z.array(anyObject), 'names') })
      .optional(),
  }),
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

/** Root fields of a chat body, apart from the conversation and its tools. */
const chatFields = {
  ...sharedFields,
  logprobs: z.boolean().nullish(),
  top_logprobs: ranged(z.int().min(0).max(255), RANGES.top_logprobs).nullish(),
  max_completion_tokens: positiveU32.nullish(),
  response_format: responseFormat.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  reasoning_effort: reasoningEffort.nullish(),
  add_generation_prompt: z.boolean().nullish(),
  continue_final_message: z.boolean().nullish(),
  chat_template_args: anyObject.nullish(),
  chat_template_kwargs: anyObject.nullish(),
  thinking: z.unknown().meta(thinking).optional(),
  enable_thinking: z.boolean().nullish(),
  documents: atMost(z.array(anyObject), 'parts').nullish(),
  include_reasoning: z.boolean().nullish(),
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
};

/** Body of `POST /v1/chat/completions`: types only; bounds have messages of their own. */
export const chatSchema = z
  .looseObject({
    // first, because the error names the first wrong field
    messages: atMost(z.array(messageSchema), 'messages', { minItems: 1 }),
    ...chatFields,
    tools: z.array(toolSchema).nullish(),
    tool_choice: toolChoice.nullish(),
  })
  .meta(STREAM_OPTIONS_RULE);

export type ChatBody = z.infer<typeof chatSchema>;

/** Chat body that was checked: its messages may come from models, and all its tools are functions. */
export type CheckedChat = z.infer<z.ZodObject<typeof chatFields, z.core.$loose>> & {
  messages: readonly ChatMessage[];
  tools?: readonly ToolDefinition[] | undefined;
  tool_choice?: FunctionChoice | undefined;
};

/** Chat body as received, before it is known which turns are new. */
export const chatShape = chatSchema.extend({ messages: atMost(z.array(anyMessage), 'messages') });

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
  .meta({ anyOf: [{ required: ['prompt'] }, { required: ['prompt_embeds'] }], ...STREAM_OPTIONS_RULE });

export type CompletionsBody = z.infer<typeof completionsSchema>;
