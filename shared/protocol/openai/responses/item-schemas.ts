import * as z from 'zod';
import { atMost } from '../shape-check.ts';
import { anyObject } from '../shared-fields.ts';
import { showsKinds } from '../shown-kinds.ts';

const toolFields = {
  type: z.string(),
  name: z.string().optional(),
  description: z.string().nullish(),
  parameters: z.unknown().optional(),
  strict: z.boolean().nullish(),
  format: anyObject.nullish(),
  execution: z.string().nullish(),
};

/** Tool inside a namespace, which cannot be a namespace itself. */
const innerTool = z.looseObject(toolFields);

/** Tool of any type: the reader decides which types are served. */
export const tool = z.looseObject({ ...toolFields, tools: atMost(z.array(innerTool), 'names').optional() });

const inputText = z.looseObject({ type: z.literal('input_text'), text: z.string() });
const outputText = z.looseObject({ type: z.literal('output_text'), text: z.string() });
const inputImage = z.looseObject({
  type: z.literal('input_image'),
  image_url: z.string().nullish(),
  file_id: z.string().nullish(),
  detail: z.string().nullish(),
});
const inputFile = z.looseObject({
  type: z.literal('input_file'),
  file_data: z.string().nullish(),
  filename: z.string().nullish(),
  file_id: z.string().nullish(),
  file_url: z.string().nullish(),
});
const inputVideo = z.looseObject({ type: z.literal('input_video'), video_url: z.string() });
const refusal = z.looseObject({ type: z.literal('refusal'), refusal: z.string() });

/** Part of a new message. `input_audio` does not parse. */
const contentPart = z.discriminatedUnion('type', [inputText, outputText, inputImage, inputVideo, inputFile, refusal]);
const content = z.union([z.string(), atMost(z.array(contentPart), 'parts')]);
const id = z.string().nullish();
/** Field that a model or another server wrote: it is read as it comes, and never refused. */
const written = z.unknown().optional();
const writtenText = z.unknown().meta({ type: 'string' }).optional();
const writtenList = z.unknown().meta({ type: 'array' }).optional();
const ROLES = ['user', 'assistant', 'system', 'developer'] as const;

/** New message. */
export const newMessage = z.looseObject({ role: z.enum(ROLES), content, id });

/** Schemas by kind of item; the kind of an item without `type` follows from its other fields (`kindOfItem`). */
export const ITEM_SCHEMAS = {
  message: z.looseObject({ role: z.enum(ROLES), content: written, id: writtenText }),
  reasoning: z.looseObject({ id: writtenText, summary: writtenList, content: writtenList }),
  function_call: z.looseObject({
    id: writtenText,
    call_id: writtenText,
    name: writtenText,
    namespace: writtenText,
    arguments: written,
  }),
  function_call_output: z.looseObject({ id: writtenText, call_id: writtenText, output: written }),
  custom_tool_call: z.looseObject({
    id: writtenText,
    call_id: writtenText,
    name: writtenText,
    namespace: writtenText,
    input: writtenText,
  }),
  custom_tool_call_output: z.looseObject({ id: writtenText, call_id: writtenText, output: written }),
  item_reference: z.looseObject({ id: z.string() }),
  additional_tools: z.looseObject({ id, tools: atMost(z.array(tool), 'names') }),
  tool_search_call: z.looseObject({ id: writtenText, call_id: writtenText, arguments: written }),
  tool_search_output: z.looseObject({ id: writtenText, call_id: writtenText, tools: atMost(z.array(tool), 'names') }),
  compaction: z.looseObject({ id: writtenText, encrypted_content: writtenText }),
  compaction_trigger: z.looseObject({ id }),
  /** Codex's own: settings of the turn, which the body's root has too. */
  configuration_update: z.looseObject({ id }),
} as const;

/** Item of any kind: it is checked together with the rest of `input` (`parseItems`). */
export const inputItem = showsKinds(z.unknown().meta({ type: 'object' }), {
  kinds: () => {
    const { message, item_reference: reference, ...others } = ITEM_SCHEMAS;
    return [
      newMessage.extend({ type: z.literal('message').optional(), role: z.enum(ROLES).exclude(['assistant']) }),
      message.extend({ type: z.literal('message').optional(), role: z.literal('assistant') }),
      reference.extend({ type: z.literal('item_reference').optional() }),
      ...Object.entries(others).map(([type, item]) => z.looseObject({ type: z.literal(type), ...item.shape })),
    ];
  },
  others:
    'Any other kind: what tools that a server ran wrote, and what stands before the last item of the model, is read as it comes. ' +
    'The rest is refused.',
});
