import type * as z from 'zod';
import { LIMITS, overLimit } from '../../../errors/index.ts';
import { isRecord } from '../../../records/index.ts';
import { requireShapeAt, shapeError } from '../field-checks.ts';
import { ITEM_SCHEMAS, newMessage } from './item-schemas.ts';

/** Name of a kind of item. */
export type ItemKind = keyof typeof ITEM_SCHEMAS;

/** Item of a kind that only another server makes, or of an unknown kind. */
interface ForeignItem {
  readonly type: 'foreign';
  readonly id?: unknown;
  /** Item as it came. */
  readonly item: Readonly<Record<string, unknown>>;
  readonly [key: string]: unknown;
}

/** Item whose types are right, with its kind set. */
export type InputItem =
  | { [Kind in ItemKind]: z.infer<(typeof ITEM_SCHEMAS)[Kind]> & { readonly type: Kind } }[ItemKind]
  | ForeignItem;

export type MessageItem = Extract<InputItem, { readonly type: 'message' }>;

/** Returns the kind of an item in a body: messages and references need not give it. */
export function kindOfItem(item: Readonly<Record<string, unknown>>): string {
  if (typeof item.type === 'string') return item.type;
  return item.role === undefined && item.id !== undefined ? 'item_reference' : 'message';
}

function isItemKind(kind: string): kind is ItemKind {
  return Object.hasOwn(ITEM_SCHEMAS, kind);
}

/** Returns whether items of a kind call a tool, known here or not. */
export function isCallKind(kind: string): boolean {
  return kind === 'program' || kind.endsWith('_call');
}

/** Kinds besides calls that servers write into a conversation; clients answer some of them. */
const SERVERS_OWN = /_(?:output|result|request|response|list_tools|summary)$/;

/** Returns whether a model wrote an item: everything before the last such item is history. */
export function isOfModel(item: InputItem | Readonly<Record<string, unknown>>): boolean {
  const raw = item.type === 'foreign' ? (item as ForeignItem).item : (item as Readonly<Record<string, unknown>>);
  const kind = kindOfItem(raw);
  return kind === 'message' ? raw.role === 'assistant' : kind === 'reasoning' || isCallKind(kind);
}

/** Returns a stored or received item, from any service, with the type of its kind. */
export function readItem(item: Readonly<Record<string, unknown>>): InputItem {
  const kind = kindOfItem(item);
  if (!isItemKind(kind)) return { type: 'foreign', id: item.id, item };
  return (item.type === kind ? item : { ...item, type: kind }) as InputItem; // nearly every field is read as it comes
}

/** Kinds of items that call a tool. */
export type CallKind = 'function_call' | 'custom_tool_call' | 'tool_search_call';

/** Kinds of items in an answer. */
export type OutputKind = 'message' | 'reasoning' | 'compaction' | CallKind;

const PREFIXES = {
  foreign: 'itm',
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
/** Id of a stored response, with the name that it had while it was streamed. */
const SHOWN_ID = /^(resp_[0-9a-f]{32})(?:_[0-9a-f]{40})?$/;
const ITEM_ID = /^[a-z]+_([0-9a-f]{32})[01][0-9a-f]{4,}$/;
const INDEX_DIGITS = 4;

/** Returns `resp_<32 hex>` for a request id (UUID). */
export function responseIdOf(requestId: string): string {
  return `resp_${requestId.replaceAll('-', '')}`;
}

/** Returns the id under which a response is stored, from the id that its client saw; returns other ids unchanged. */
export function storedIdOf(shownId: string): string {
  return SHOWN_ID.exec(shownId)?.[1] ?? shownId;
}

/** Place of an item: in the input or the output of a response. */
type ItemPlace = 'input' | 'output';

/** Returns the id of an item. It contains the id of its response, so that a reference takes one read of the store. */
export function itemIdOf(kind: InputItem['type'], responseId: string, place: ItemPlace, index: number): string {
  const digits = `${place === 'input' ? 0 : 1}${index.toString(16).padStart(INDEX_DIGITS, '0')}`;
  return `${PREFIXES[kind]}_${RESPONSE_ID.exec(responseId)?.[1]}${digits}`;
}

/** Returns the response that an item belongs to; undefined for ids that were not issued here. */
export function responseIdOfItem(itemId: string): string | undefined {
  const hex = ITEM_ID.exec(itemId)?.[1];
  return hex === undefined ? undefined : `resp_${hex}`;
}

/**
 * Checks the items of `input`, each by the schema of its kind, and sets the kind of items without one. A text is one
 * user message.
 * @throws ServeError 400 for kinds, roles and parts that are not known.
 */
export function parseItems(input: string | readonly unknown[]): readonly InputItem[] {
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }];
  const lastOfModel = input.findLastIndex((item) => isRecord(item) && isOfModel(item));
  return input.map((item, at) => parseItem(item, at, at > lastOfModel));
}

function parseItem(item: unknown, at: number, isNew: boolean): InputItem {
  const path = `input[${at}]`;
  if (!isRecord(item)) {
    throw shapeError('invalid_value', `${path}: expected an object`, path);
  }
  const kind = kindOfItem(item);
  if (!isItemKind(kind)) {
    if (isNew && !isCallKind(kind) && !SERVERS_OWN.test(kind)) {
      throw shapeError('invalid_value', `${path}.type: unknown item type \`${kind}\``, `${path}.type`);
    }
    return readItem(item);
  }
  requireShapeAt(ITEM_SCHEMAS[kind], item, ['input', at]);
  const { content: said } = item;
  if (kind === 'message' && item.role !== 'assistant' && (isNew || item.role !== 'user')) {
    requireShapeAt(newMessage, item, ['input', at]);
  } else if (Array.isArray(said) && said.length > LIMITS.parts.max) {
    const message = `${path}.content: at most ${LIMITS.parts.max} elements are allowed, got ${said.length}`;
    throw overLimit('parts', message, { param: `${path}.content` });
  }
  return readItem(item);
}

/**
 * Returns the items as a response's `input_items` lists them: each with an id and a status, texts of messages as parts.
 */
export function toListedItems(items: readonly InputItem[], responseId: string): readonly InputItem[] {
  return items.map((item, index) => {
    if (item.type === 'item_reference') return item;
    const id = typeof item.id === 'string' ? item.id : itemIdOf(item.type, responseId, 'input', index);
    if (item.type === 'foreign') return { ...item.item, id } as unknown as InputItem; // its readers parse it anew
    const named = { ...item, id };
    if (named.type === 'message') return { status: 'completed', ...named, content: toParts(named) };
    return named.type === 'reasoning' ? named : { status: 'completed', ...named };
  });
}

function toParts({ role, content }: MessageItem): MessageItem['content'] {
  if (typeof content !== 'string') return content ?? [];
  if (role !== 'assistant') return [{ type: 'input_text', text: content }];
  return [{ type: 'output_text', text: content, annotations: [], logprobs: [] }];
}
