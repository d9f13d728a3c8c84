import * as z from 'zod';
import { atMost } from '../shape-check.ts';
import { tool } from './body-schema.ts';

const inputText = z.looseObject({ type: z.literal('input_text'), text: z.string() });
const outputText = z.looseObject({ type: z.literal('output_text'), text: z.string() });
const inputImage = z.looseObject({
  type: z.literal('input_image'),
  image_url: z.string().nullish(),
  file_id: z.string().nullish(),
  detail: z.string().nullish(),
});
const inputFile = z.looseObject({ type: z.literal('input_file') });
const inputVideo = z.looseObject({ type: z.literal('input_video'), video_url: z.string() });
const refusal = z.looseObject({ type: z.literal('refusal'), refusal: z.string() });

/** A part of a message or of a tool's output. `input_audio` does not parse. */
const contentPart = z.discriminatedUnion('type', [inputText, outputText, inputImage, inputVideo, inputFile, refusal]);
const content = z.union([z.string(), atMost(z.array(contentPart), 'parts')]);
const toolOutput = z.union([
  z.string(),
  atMost(z.array(z.discriminatedUnion('type', [inputText, inputImage, inputFile])), 'parts'),
]);
const id = z.string().nullish();
const namespace = z.string().nullish();

/** One schema a kind of item; the kind of an item without `type` is told by its other fields (`kindOfItem`). */
export const ITEM_SCHEMAS = {
  message: z.looseObject({ role: z.enum(['user', 'assistant', 'system', 'developer']), content, id }),
  reasoning: z.looseObject({
    id,
    summary: atMost(z.array(z.looseObject({ text: z.string() })), 'parts').nullish(),
    content: atMost(z.array(z.looseObject({ text: z.string() })), 'parts').nullish(),
  }),
  function_call: z.looseObject({ id, call_id: z.string(), name: z.string(), namespace, arguments: z.string() }),
  function_call_output: z.looseObject({ id, call_id: z.string(), output: toolOutput }),
  custom_tool_call: z.looseObject({ id, call_id: z.string(), name: z.string(), namespace, input: z.string() }),
  custom_tool_call_output: z.looseObject({ id, call_id: z.string(), output: toolOutput }),
  item_reference: z.looseObject({ id: z.string() }),
  additional_tools: z.looseObject({ id, tools: atMost(z.array(tool), 'names') }),
  tool_search_call: z.looseObject({ id, call_id: z.string().nullish(), arguments: z.unknown() }),
  tool_search_output: z.looseObject({ id, call_id: z.string().nullish(), tools: atMost(z.array(tool), 'names') }),
  compaction: z.looseObject({ id, encrypted_content: z.string() }),
  compaction_trigger: z.looseObject({ id }),
  /** Codex's own: settings of the turn, which the body's root says too. */
  configuration_update: z.looseObject({ id }),
} as const;

/** Name of a kind of item. */
export type ItemKind = keyof typeof ITEM_SCHEMAS;

/** An item whose types are right, with its kind said. */
export type InputItem = {
  [Kind in ItemKind]: z.infer<(typeof ITEM_SCHEMAS)[Kind]> & { readonly type: Kind };
}[ItemKind];

export type ContentPart = z.infer<typeof contentPart>;
export type MessageItem = Extract<InputItem, { readonly type: 'message' }>;

/** The kind of an item as it stands in a body: messages and references need not say it. */
export function kindOfItem(item: Readonly<Record<string, unknown>>): string {
  if (typeof item.type === 'string') return item.type;
  return item.role === undefined && item.id !== undefined ? 'item_reference' : 'message';
}

export function isItemKind(kind: string): kind is ItemKind {
  return Object.hasOwn(ITEM_SCHEMAS, kind);
}
