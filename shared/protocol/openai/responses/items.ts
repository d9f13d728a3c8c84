import * as z from 'zod';
import { isRecord } from '../../../records/index.ts';
import { requireShapeAt, shapeError } from '../field-checks.ts';
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

/** Kinds of item that call a tool. */
export type CallKind = 'function_call' | 'custom_tool_call' | 'tool_search_call';

/** Kinds of item that an answer is made of. */
export type OutputKind = 'message' | 'reasoning' | 'compaction' | CallKind;

const PREFIXES = {
  message: 'msg',
  reasoning: 'rs',
  function_call: 'fc',
  custom_tool_call: 'ctc',
  function_call_output: 'fco',
  custom_tool_call_output: 'ctco',
  item_reference: 'ref',
  additional_tools: 'at',
  tool_search_call: 'tsc',
  tool_search_output: 'tso',
  compaction: 'cmp',
  compaction_trigger: 'cmpt',
  configuration_update: 'cfg',
} as const satisfies Record<InputItem['type'], string>;

const RESPONSE_ID = /^resp_([0-9a-f]{32})$/;
/** The id of a stored response, and behind it the name that it had while it was streamed. */
const SHOWN_ID = /^(resp_[0-9a-f]{32})(?:_[0-9a-f]{40})?$/;
const ITEM_ID = /^[a-z]+_([0-9a-f]{32})[01][0-9a-f]{4,}$/;
const INDEX_DIGITS = 4;

/** `resp_<32 hex>` of a request id (UUID). */
export function responseIdOf(requestId: string): string {
  return `resp_${requestId.replaceAll('-', '')}`;
}

/** The id under which a response is stored, of the one that its client was told; itself where it is no such id. */
export function storedIdOf(shownId: string): string {
  return SHOWN_ID.exec(shownId)?.[1] ?? shownId;
}

/** Where an item stands: among what went into a response, or among what came out. */
type ItemPlace = 'input' | 'output';

/** Id of an item. It names the response that the item belongs to, so that a reference is resolved by one look into the store. */
export function itemIdOf(kind: InputItem['type'], responseId: string, place: ItemPlace, index: number): string {
  const digits = `${place === 'input' ? 0 : 1}${index.toString(16).padStart(INDEX_DIGITS, '0')}`;
  return `${PREFIXES[kind]}_${RESPONSE_ID.exec(responseId)?.[1]}${digits}`;
}

/** The response that an item belongs to; undefined for ids that were not made here. */
export function responseIdOfItem(itemId: string): string | undefined {
  const hex = ITEM_ID.exec(itemId)?.[1];
  return hex === undefined ? undefined : `resp_${hex}`;
}

/**
 * Checks the items of `input`, each by the schema of its kind, and says the kind of those that left it out. A text is one
 * user message.
 * @throws ServeError 400 for kinds, roles and parts that are not known.
 */
export function parseItems(input: string | readonly unknown[]): readonly InputItem[] {
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }];
  return input.map(parseItem);
}

function parseItem(item: unknown, at: number): InputItem {
  const path = `input[${at}]`;
  if (!isRecord(item)) {
    throw shapeError('invalid_value', `${path}: expected an object`, path);
  }
  const kind = kindOfItem(item);
  if (!isItemKind(kind))
    throw shapeError('invalid_value', `${path}.type: unknown item type \`${kind}\``, `${path}.type`);
  const checked = requireShapeAt(ITEM_SCHEMAS[kind], item, ['input', at]);
  return (item.type === kind ? checked : { ...checked, type: kind }) as InputItem; // the schema of that very kind
}

/** Items as a response's `input_items` lists them: each with an id and a status, texts of messages as parts. */
export function toListedItems(items: readonly InputItem[], responseId: string): readonly InputItem[] {
  return items.map((item, index) => {
    if (item.type === 'item_reference') return item;
    const named = { ...item, id: item.id ?? itemIdOf(item.type, responseId, 'input', index) };
    if (named.type === 'message') return { status: 'completed', ...named, content: toParts(named) };
    return named.type === 'reasoning' ? named : { status: 'completed', ...named };
  });
}

function toParts({ role, content }: MessageItem): MessageItem['content'] {
  if (typeof content !== 'string') return content;
  if (role !== 'assistant') return [{ type: 'input_text', text: content }];
  return [{ type: 'output_text', text: content, annotations: [], logprobs: [] }];
}
